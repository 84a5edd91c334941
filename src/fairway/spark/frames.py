"""What is computed of the event log: frames in, frames out. No reading, no writing, no state.

A version of a delivery goes through batches as a *partial*: the first, the last and the number of
things seen of it so far, and what its first event said in words. Partials merge in any cut, so any
split of the log into batches gives the rows of one batch. Words are joined, never aggregated:
with a string in an aggregate Spark sorts instead of hashing, at twice to three times the time.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StructField, StructType, TimestampType

from fairway.core.events import ENDINGS
from pyspark_fairway.schema import event_schema

# `unchanged` is the whole life of a version: it begins and ends with it.
BEGINNINGS: Final = frozenset({"queued", "updated", "unchanged"})
BETWEEN: Final = frozenset(
    {"leased", "confirmed", "nak", "requeue", "lapse", "reschedule", "release"}
)
LIFE: Final = BEGINNINGS | BETWEEN | ENDINGS

# A version of a delivery. `sendId` tells apart two of equal generation: it begins at 1 again when
# the message before has left the history.
KEY: Final = ("target", "organization", "id", "generation", "sendId")

_SAID: Final = ("priority", "object", "key", "topics", "availableAt")  # by the first event
_KEPT: Final = ("topics", "object", "key", "priority")  # … and in the end, if it said nothing
_ENDING: Final = ("shard", "kind", "reason", "code", "consumer", "service")  # by the last

# What events are read for.
COLUMNS: Final = ("position", "at", "letter", *KEY, *_SAID, *_ENDING)

_SEEN: Final = (
    StructField("firstPosition", LongType()),
    StructField("lastPosition", LongType()),
    StructField("queuedAt", TimestampType()),
    StructField("leasedAt", TimestampType()),
    StructField("leases", LongType()),
    StructField("retries", LongType()),
)
_SEEN_NAMES: Final = tuple(field.name for field in _SEEN)

# Unfinished versions: all that one batch hands to the next.
OPEN: Final = StructType([*event_schema(KEY), *_SEEN, *event_schema(_SAID)])

# Finished versions, one row each.
DELIVERIES: Final = StructType(
    [
        StructField("shard", IntegerType()),
        *event_schema((*KEY, "topics", "object", "key", "priority")),
        StructField("outcome", event_schema(("letter",))["letter"].dataType),
        *event_schema(("kind", "reason", "code", "consumer", "service")),
        StructField("queuedAt", TimestampType()),
        StructField("availableAt", TimestampType()),
        StructField("leasedAt", TimestampType()),
        StructField("endedAt", TimestampType()),
        StructField("leases", LongType()),
        StructField("retries", LongType()),
        StructField("queueWaitMs", LongType()),
        StructField("totalMs", LongType()),
        StructField("firstPosition", LongType()),
        StructField("lastPosition", LongType()),
    ]
)


class Step(NamedTuple):
    """What a batch of events makes."""

    finished: DataFrame
    open: DataFrame


def step(events: DataFrame, before: DataFrame) -> Step:
    """Events, and the unfinished versions of before → finished versions, and the unfinished now."""
    life = events.where(_is(LIFE)).withColumn("sendId", F.coalesce("sendId", F.lit("")))
    whole = _seen(life, before).join(_said(life, before), [*KEY, "firstPosition"], "left")
    ended = life.where(_is(ENDINGS)).select(
        *KEY,
        F.col("letter").alias("outcome"),
        F.col("at").alias("endedAt"),
        *(F.col(name).alias(f"ending_{name}") for name in (*_ENDING, *_SAID)),
    )
    return Step(
        _finished(whole.join(ended, [*KEY])),
        whole.join(ended, [*KEY], "left_anti").select(*OPEN.names),
    )


def outcomes(deliveries: DataFrame) -> DataFrame:
    """How many deliveries ended how: (target, outcome, count)."""
    return deliveries.groupBy("target", "outcome").count()


def _seen(life: DataFrame, before: DataFrame) -> DataFrame:
    leased = _is({"leased"})
    each = life.select(
        *KEY,
        F.when(_is(BEGINNINGS), F.col("position")).alias("firstPosition"),
        F.col("position").alias("lastPosition"),
        F.when(_is(BEGINNINGS), F.col("at")).alias("queuedAt"),
        F.when(leased, F.col("at")).alias("leasedAt"),
        leased.cast("long").alias("leases"),
        (F.col("letter") == "R").cast("long").alias("retries"),
    )
    merge = {"lastPosition": F.max, "leases": F.sum, "retries": F.sum}
    return (
        each.unionByName(before.select(*KEY, *_SEEN_NAMES))
        .groupBy(*KEY)
        .agg(*(merge.get(name, F.min)(name).alias(name) for name in _SEEN_NAMES))
    )


def _said(life: DataFrame, before: DataFrame) -> DataFrame:
    first = life.where(_is(BEGINNINGS)).withColumnRenamed("position", "firstPosition")
    columns = (*KEY, "firstPosition", *_SAID)
    return first.select(*columns).unionByName(before.select(*columns))


def _finished(whole: DataFrame) -> DataFrame:
    """A version whose beginning the log no longer holds has only what its ending says."""
    said = {name: F.coalesce(name, f"ending_{name}") for name in _KEPT}
    available = F.coalesce("availableAt", "queuedAt")
    computed = said | {
        **{name: F.col(f"ending_{name}") for name in _ENDING},
        "availableAt": available,
        "queueWaitMs": _ms(available, F.col("leasedAt")),
        "totalMs": _ms(F.col("queuedAt"), F.col("endedAt")),
    }
    return whole.select(*(computed.get(name, F.col(name)).alias(name) for name in DELIVERIES.names))


def _is(kinds: frozenset[str] | set[str]) -> Column:
    return F.col("kind").isin(sorted(kinds))


def _ms(start: Column, end: Column) -> Column:
    return F.floor((F.unix_micros(end) - F.unix_micros(start)) / 1000).cast("long")
