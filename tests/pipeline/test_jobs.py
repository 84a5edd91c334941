"""Passes over a growing log: whatever crashes and repeats, the tables say what the events say."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import fairway
from fairway.core.events import Event
from fairway.core.records import LogState, ShardState
from fairway.spark import frames, jobs
from fairway.spark.tables import Lake, Table
from pyspark_fairway import ConnectorError
from tests.pipeline.histories import history, oracle
from tests.pipeline.test_frames import as_frame, as_rows, as_sorted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pyspark_fairway.offsets import Offsets


class Log:
    """A log that is readable up to `latest`."""

    def __init__(self, spark: SparkSession, events: list[Event]) -> None:
        self.spark = spark
        self.events = events
        self.latest = 0
        self.identity = "abc"
        self.reads: list[tuple[int, int]] = []

    def pass_(self, lake: Lake, latest: int) -> jobs.Report:
        self.latest = latest
        state = LogState(self.identity, [ShardState(0, 1, self.latest)])
        return jobs.advance(self.spark, state, self.read, lake)

    def read(self, start: Offsets, end: Offsets) -> DataFrame:
        after, last = start.positions[0], end.positions[0]
        self.reads.append((after + 1, last))
        return as_frame(self.spark, self.events[after:last], after + 1)


@pytest.fixture
def log(spark: SparkSession, run_seed: int) -> Log:
    return Log(spark, history(run_seed + 1, 80))


def tables(lake: Lake) -> tuple[Table, Table]:
    return lake.table("deliveries", frames.DELIVERIES), lake.table("open", frames.OPEN)


def versions(lake: Lake) -> list[int]:
    from deltalake import DeltaTable

    return [DeltaTable(lake.path / name).version() for name in ("deliveries", "open")]


def check(log: Log, lake: Lake, report: jobs.Report) -> None:
    finished, still_open = oracle(log.events[: log.latest])
    deliveries, unfinished = tables(lake)
    assert as_rows(deliveries.read(log.spark)) == as_sorted(finished)
    assert as_rows(unfinished.read(log.spark)) == as_sorted(still_open)
    assert (sum(report.outcomes.values()), report.open) == (len(finished), len(still_open))
    assert report.through == {0: log.latest}


def test_a_crash_between_the_commits_changes_nothing_in_the_end(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    third, end = len(log.events) // 3, len(log.events)
    committed = Table.commit

    def crashing(self: Table, *args: Any) -> int:
        if args[-1] == "overwrite":
            raise KeyboardInterrupt
        return committed(self, *args)

    with Lake(tmp_path) as lake:
        log.pass_(lake, third)
        with monkeypatch.context() as patched:
            patched.setattr(Table, "commit", crashing)
            with pytest.raises(KeyboardInterrupt):
                log.pass_(lake, 2 * third)
        redone = log.pass_(lake, end)  # more was readable, but the batch that was begun comes first
        assert redone.through == {0: 2 * third}
        assert redone.new == 0
        check(log, lake, log.pass_(lake, end))
        assert log.reads == [
            (1, third), (third + 1, 2 * third), (third + 1, 2 * third), (2 * third + 1, end)
        ]  # fmt: skip


def test_a_pass_that_finds_nothing_new_commits_nothing(log: Log, tmp_path: Path):
    with Lake(tmp_path) as lake:
        first = log.pass_(lake, 50)
        assert versions(lake) == [0, 0]
        again = log.pass_(lake, 50)
        assert versions(lake) == [0, 0]
        assert again == first._replace(new=0)
        check(log, lake, again)


def test_events_that_finish_nothing_still_move_the_lake_on(log: Log, tmp_path: Path):
    log.events = [event for event in log.events if event.kind == "logged"]
    with Lake(tmp_path) as lake:
        report = log.pass_(lake, 5)
        assert (report.new, report.open, report.outcomes, report.through) == (0, 0, {}, {0: 5})
        log.pass_(lake, 6)
        assert log.reads == [(1, 5), (6, 6)]


def test_a_lake_of_another_log_is_refused(log: Log, tmp_path: Path):
    with Lake(tmp_path) as lake:
        log.pass_(lake, 5)
        log.identity = "restored"
        with pytest.raises(
            ConnectorError, match=r"FAIRWAY_OTHER_LOG: .* log abc, this one is restored"
        ):
            log.pass_(lake, 5)


def test_an_empty_log_makes_an_empty_lake(log: Log, tmp_path: Path):
    with Lake(tmp_path) as lake:
        assert log.pass_(lake, 0) == jobs.Report(0, 0, {}, {0: 0})
        assert list(lake.path.iterdir()) == [lake.path / ".writer"]


def test_the_store_is_read_by_the_connector(spark: SparkSession, tmp_path: Path):
    url = f"sqlite:///{tmp_path / 'log.db'}"
    with fairway.connect(url) as fw, Lake(tmp_path / "lake") as lake:
        for number in range(9):
            fw.send("orders.created", {"n": number}, organization=f"o{number % 2}")
        for number, delivery in enumerate(fw.receive("orders", limit=6)):
            delivery.reject("no id") if number % 3 == 0 else delivery.ack()
        first = jobs.run_once(spark, url, lake)
        assert (first.new, first.open, first.outcomes) == (6, 3, {"X": 4, "I": 2})
        for delivery in fw.receive("orders", limit=6):
            delivery.ack()
        second = jobs.run_once(spark, url, lake)
        assert (second.new, second.open, second.outcomes) == (3, 0, {"X": 7, "I": 2})
        rows = tables(lake)[0].read(spark).select("leases", "priority", "topics").collect()
        assert {(row[0], row[1], tuple(row[2])) for row in rows} == {(1, 3, ("orders.created",))}


def test_an_error_of_the_connector_comes_out_of_spark_as_itself(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    url = f"sqlite:///{tmp_path / 'log.db'}"
    with fairway.connect(url) as fw, Lake(tmp_path / "lake") as lake:
        fw.send("orders.created", {})
        other = LogState("gone", [ShardState(0, 1, 2)])
        monkeypatch.setattr("pyspark_fairway.client.log_of", lambda url: other)
        with pytest.raises(ConnectorError, match=r"^FAIRWAY_OTHER_LOG"):
            jobs.run_once(spark, url, lake)
