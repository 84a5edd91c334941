"""The columns of the event log as Spark types; they are stated once, in fairway.core.events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from fairway.core.events import COLUMNS, KINDS
from pyspark_fairway.errors import ConnectorError

TYPES: Final[dict[str, DataType]] = {
    "int32": IntegerType(),
    "int64": LongType(),
    "instant": TimestampType(),
    "string": StringType(),
    "binary": BinaryType(),
    "strings": ArrayType(StringType()),
}


def event_schema(columns: Sequence[str] = COLUMNS) -> StructType:
    """The schema of these columns, in their order."""
    for name in columns:
        if name not in KINDS:
            raise _bad(f"the event log has no column {name!r}")
    if not columns or len(set(columns)) < len(columns):
        raise _bad("columns names none, or one twice")
    return StructType([StructField(name, TYPES[KINDS[name]]) for name in columns])


def columns_of(schema: StructType) -> tuple[str, ...]:
    """The columns of a schema that the user gave, if it is one of ours."""
    own = event_schema(tuple(schema.fieldNames()))
    for given, ours in zip(schema.fields, own.fields, strict=True):
        if given.dataType != ours.dataType:
            wanted, got = ours.dataType.simpleString(), given.dataType.simpleString()
            raise _bad(f"column {given.name} is {wanted}, not {got}")
    return tuple(own.fieldNames())


def _bad(happened: str) -> ConnectorError:
    return ConnectorError("BAD_COLUMNS", happened, f"choose among {', '.join(COLUMNS)}")
