"""The frames against a plain walk through the events, in any cut of the log."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from fairway.arrow import Stream
from fairway.core.events import Event, pack
from tests.pipeline.histories import history, oracle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def as_frame(spark: SparkSession, events: list[Event], first: int = 1) -> DataFrame:
    """Events as the connector brings them; `first` is the position of the first one."""
    stream = Stream(0, None)
    rows = stream.batch([(first, pack(events))], first, first + len(events) - 1)
    whole = stream.start() + rows + stream.end()
    return spark.createDataFrame(pa.ipc.open_stream(whole).read_all())


def as_rows(frame: DataFrame) -> list[tuple[tuple[str, Any], ...]]:
    """Rows to compare: instants as µs, in an order of their own."""
    table = frame.toArrow()
    columns = {
        name: column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
    return as_sorted(pa.table(columns).to_pylist())


def as_sorted(rows: list[dict[str, Any]]) -> list[tuple[tuple[str, Any], ...]]:
    return sorted((tuple(sorted(row.items())) for row in rows), key=repr)


@pytest.fixture(scope="module")
def events(run_seed: int) -> list[Event]:
    return history(run_seed, 150)


def test_one_batch_says_what_the_events_say(spark: SparkSession, events: list[Event]):
    from fairway.spark import frames

    made = frames.step(as_frame(spark, events), spark.createDataFrame([], frames.OPEN))
    finished, still_open = oracle(events)
    assert as_rows(made.finished) == as_sorted(finished)
    assert as_rows(made.open) == as_sorted(still_open)
    assert made.finished.schema.names == frames.DELIVERIES.names
    types = [field.dataType for field in made.finished.schema]
    assert types == [field.dataType for field in frames.DELIVERIES]


@pytest.mark.parametrize("draw", [1, 2])
def test_any_two_batches_make_the_rows_of_one(
    spark: SparkSession, events: list[Event], run_seed: int, draw: int
):
    from fairway.spark import frames

    cut = random.Random(run_seed + draw).randrange(1, len(events))
    begin = frames.step(as_frame(spark, events[:cut]), spark.createDataFrame([], frames.OPEN))
    end = frames.step(as_frame(spark, events[cut:], cut + 1), begin.open)
    finished, still_open = oracle(events)
    assert as_rows(begin.finished.unionByName(end.finished)) == as_sorted(finished)
    assert as_rows(end.open) == as_sorted(still_open)


def test_an_id_that_begins_again_at_generation_one_is_another_delivery(spark: SparkSession):
    from fairway.spark import frames

    facts: dict[str, Any] = {"target": "t", "organization": "", "id": "a"}
    lives = [
        Event(at=1_000 * step, letter=letter, kind=kind, send_id=send, **facts)
        for send in ("s1", "s2")
        for step, (letter, kind) in enumerate(
            [("Q", "queued"), ("F", "leased"), ("X", "completed")]
        )
    ]
    made = frames.step(as_frame(spark, lives), spark.createDataFrame([], frames.OPEN))
    assert [(row["leases"], row["totalMs"]) for row in made.finished.collect()] == [(1, 2), (1, 2)]


def test_outcomes_are_counted_by_target(spark: SparkSession, events: list[Event]):
    from fairway.spark import frames

    finished, _ = oracle(events)
    made = frames.step(as_frame(spark, events), spark.createDataFrame([], frames.OPEN))
    counted = {
        (r["target"], r["outcome"]): r["count"] for r in frames.outcomes(made.finished).collect()
    }
    wanted: dict[tuple[str, str], int] = {}
    for row in finished:
        place = (row["target"], row["outcome"])
        wanted[place] = wanted.get(place, 0) + 1
    assert counted == wanted


def test_nothing_is_aggregated_by_sorting(spark: SparkSession, events: list[Event]):
    from fairway.spark import frames

    made = frames.step(as_frame(spark, events), spark.createDataFrame([], frames.OPEN))
    plan = made.finished._jdf.queryExecution().toString()
    assert "HashAggregate" in plan
    assert "SortAggregate" not in plan
