"""What Spark calls, called without Spark, on a Fairway that is a list of events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType

import fairway
from fairway.arrow import Stream
from fairway.core.errors import LogGone
from fairway.core.events import COLUMNS, Event, pack
from fairway.core.records import LogState, ShardState
from pyspark_fairway import ConnectorError, DefaultSource, client

URL = {"url": "http://fairway"}
EVENTS = [
    Event(
        at=10 * number, letter="Q", kind="queued", target="t", organization="", id=f"m{number}",
        topics=["a.b"] if number % 2 else None, fingerprint=b"\1" if number % 3 else None,
    )
    for number in range(1, 101)
]  # fmt: skip


class Fake:
    """The two verbs that the connector uses."""

    identity = "abc"
    earliest = 1
    missing = 0  # rows that read_log leaves out
    gone = False

    def log(self) -> LogState:
        return LogState(self.identity, [ShardState(0, self.earliest, len(EVENTS))])

    def read_log(
        self, shard: int, first: int, last: int, columns: Sequence[str] | None = None
    ) -> Iterator[bytes]:
        stream = Stream(shard, columns)
        whole = stream.start()
        for start in range(first, last + 1 - self.missing, 30):
            end = min(start + 29, last - self.missing)
            whole += stream.batch([(1, pack(EVENTS))], start, end)
        whole += stream.end()
        for start in range(0, len(whole), 333):
            if self.gone:
                raise LogGone("retention was faster")
            yield whole[start : start + 333]

    def close(self) -> None:
        pass


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    one = Fake()
    monkeypatch.setattr(fairway, "connect", lambda url: one)
    return one


def read(options: dict[str, str], schema: StructType | None = None) -> list[pa.Table]:
    """A table a partition."""
    source = DefaultSource(URL | options)
    reader = source.reader(schema=schema or source.schema())
    return [pa.Table.from_batches(reader.read(part)) for part in reader.partitions()]


def test_all_events_come_in_the_types_that_spark_wants(fake: Fake):
    [table] = read({})
    assert table.num_rows == len(EVENTS)
    assert table.schema.equals(to_arrow_schema(DefaultSource(URL).schema(), timezone="UTC"))
    assert table.column("id").to_pylist() == [event.id for event in EVENTS]
    assert table.column("topics").to_pylist() == [event.topics for event in EVENTS]


def test_a_range_is_cut_into_partitions(fake: Fake):
    tables = read({"maxEventsPerPartition": "40", "columns": "position"})
    assert [table.num_rows for table in tables] == [33, 33, 34]
    assert pa.concat_tables(tables).column("position").to_pylist() == list(range(1, 101))


def test_only_the_columns_asked_for_are_read(fake: Fake):
    [table] = read({"columns": "id, at", "startingOffsets": '{"v":1,"log":"abc","p":{"0":98}}'})
    assert table.column_names == ["id", "at"]
    assert table.column("id").to_pylist() == ["m99", "m100"]


def test_a_schema_from_the_user_chooses_columns(fake: Fake):
    wanted = StructType([StructField("id", StringType()), StructField("token", LongType())])
    [table] = read({}, wanted)
    assert table.column_names == ["id", "token"]


def test_what_is_not_a_column_is_refused(fake: Fake):
    with pytest.raises(ConnectorError, match=r"FAIRWAY_BAD_COLUMNS: .* no column 'colour'"):
        read({"columns": "id,colour"})
    with pytest.raises(
        ConnectorError, match=r"FAIRWAY_BAD_COLUMNS: column id is string, not bigint"
    ):
        read({}, StructType([StructField("id", LongType())]))


def test_the_partition_that_spark_makes_of_none_is_empty(fake: Fake):
    from pyspark.sql.datasource import InputPartition

    source = DefaultSource(URL | {"startingOffsets": "latest"})
    reader = source.reader(schema=source.schema())
    assert reader.partitions() == []
    assert list(reader.read(InputPartition(None))) == []


def test_another_log_between_planning_and_reading_is_refused(fake: Fake):
    reader = DefaultSource(URL).reader(schema=DefaultSource(URL).schema())
    [part] = reader.partitions()
    fake.identity = "restored"
    with pytest.raises(ConnectorError, match=r"FAIRWAY_OTHER_LOG"):
        list(reader.read(part))


def test_rows_that_do_not_come_are_missed(fake: Fake):
    fake.missing = 1
    with pytest.raises(ConnectorError, match=r"FAIRWAY_SHORT_READ: events 1 to 100 .* 99 rows"):
        read({})


def test_lost_events_fail_the_read_unless_told_otherwise(fake: Fake):
    fake.earliest = 51
    lost = {"startingOffsets": '{"v":1,"log":"abc","p":{"0":9}}', "columns": "position"}
    with pytest.raises(ConnectorError, match=r"FAIRWAY_DATA_LOSS: events 10 to 50 of shard 0"):
        read(lost)
    [table] = read(lost | {"failOnDataLoss": "false"})
    assert table.num_rows == 50


def test_events_that_go_while_being_read_are_lost(fake: Fake):
    fake.gone = True
    with pytest.raises(ConnectorError, match=r"FAIRWAY_DATA_LOSS: .*while being read"):
        read({})


def test_a_url_is_needed_and_one_that_others_can_open(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("FAIRWAY_URL", raising=False)
    with pytest.raises(ConnectorError, match=r"FAIRWAY_NO_URL"):
        DefaultSource({}).reader(schema=DefaultSource({}).schema())
    monkeypatch.setenv("FAIRWAY_URL", "memory://")
    with pytest.raises(
        ConnectorError, match=r"FAIRWAY_BAD_URL: memory:// lives inside one process"
    ):
        DefaultSource({}).reader(schema=DefaultSource({}).schema())
    with pytest.raises(ConnectorError, match="FAIRWAY_BAD_URL"):
        client.log_of("memory://")


def test_a_server_that_is_not_there_is_said_so():
    source = DefaultSource({"url": "http://127.0.0.1:9"})
    with pytest.raises(ConnectorError, match=r"FAIRWAY_UNREACHABLE: http://127.0.0.1:9"):
        source.reader(schema=source.schema()).partitions()


def test_the_schema_is_the_whole_log_in_order():
    assert DefaultSource.name() == "fairway"
    assert tuple(DefaultSource({}).schema().names) == COLUMNS
