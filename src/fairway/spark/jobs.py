"""One pass over the log: events that are new → the tables of the lake, each exactly once.

The state of the pipeline is in the tables alone. A batch is done when `open` is committed, which is
last; until then it is done again, from the `open` of before, over the same range of the log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from fairway.core.records import LogState
from fairway.spark import frames
from fairway.spark.tables import Lake, Table
from pyspark_fairway import client, offsets
from pyspark_fairway.errors import behind
from pyspark_fairway.offsets import Offsets

FROM: Final = "from"  # in the notes of a commit: the offsets before and after it
TO: Final = "to"

Read = Callable[[Offsets, Offsets], DataFrame]


class Report(NamedTuple):
    """What a pass found, and what the lake holds after it."""

    new: int
    open: int
    outcomes: Mapping[str, int]
    through: Mapping[int, int]


class Batch(NamedTuple):
    """A numbered range of the log."""

    number: int
    start: Offsets
    end: Offsets


def run_once(spark: SparkSession, url: str, lake: Lake) -> Report:
    """Brings the lake up to the end of the log as it is now. What the connector finds wrong is
    a ConnectorError, also where Spark brings it wrapped."""

    def read(start: Offsets, end: Offsets) -> DataFrame:
        asked = {
            "url": url,
            "startingOffsets": start.as_json(),
            "endingOffsets": end.as_json(),
            "columns": ",".join(frames.COLUMNS),
        }
        return spark.read.format("fairway").options(**asked).load()

    try:
        return advance(spark, client.log_of(url), read, lake)
    except Exception as error:
        if own := behind(error):
            raise own from error
        raise


def advance(spark: SparkSession, log: LogState, read: Read, lake: Lake) -> Report:
    """`run_once`, wherever the events come from."""
    deliveries = lake.table("deliveries", frames.DELIVERIES)
    unfinished = lake.table("open", frames.OPEN)
    app = f"fairway-{log.log}"
    batch = _next(log, app, deliveries, unfinished)
    new = 0
    if batch.start.positions != batch.end.positions:
        notes = {FROM: batch.start.as_json(), TO: batch.end.as_json()}
        events = read(batch.start, batch.end).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            made = frames.step(events, unfinished.read(spark))
            new = deliveries.commit(made.finished, app, batch.number, notes, "append")
            unfinished.commit(made.open, app, batch.number, notes, "overwrite")
        finally:
            events.unpersist()
    counted = Counter[str]()
    for row in frames.outcomes(deliveries.read(spark)).collect():
        counted[row["outcome"]] += row["count"]
    return Report(new, unfinished.rows(), counted, batch.end.positions)


def _next(log: LogState, app: str, deliveries: Table, unfinished: Table) -> Batch:
    """The batch after the last one that is done; one that was begun keeps its range."""
    begun, done = deliveries.notes(), unfinished.notes()
    for notes in (begun, done):
        if notes:
            offsets.check_identity(offsets.from_json(TO, notes[TO]).log, log)
    number = unfinished.batch(app) + 1
    if deliveries.batch(app) >= number:
        start, end = begun[FROM], offsets.starting(begun[TO], log)
    else:
        start, end = done.get(TO, offsets.EARLIEST), offsets.latest(log)
    return Batch(number, offsets.starting(start, log), end)
