"""One thing that happened (Event), and many of them packed column by column into a block of the log.

A block carries no positions: a store gives them when the block becomes readable. It begins with a
version byte; a block of an unknown version is refused, never guessed at.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, Final

from msgspec import Struct, msgpack, structs

VERSION: Final = b"\x01"


class Event(Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """The field order is the column order of the log, everywhere. Instants are µs since 1970, UTC.

    The columns `shard` and `position` stand before these; the store gives them.
    """

    at: int
    letter: str
    kind: str
    target: str
    organization: str
    id: str
    generation: int = 1
    priority: int | None = None
    token: int | None = None
    attempt: int | None = None
    consumer: str | None = None
    service: str | None = None
    reason: str | None = None
    code: str | None = None
    size: int | None = None
    fingerprint: bytes | None = None
    object: str | None = None
    key: str | None = None
    topics: list[str] | None = None
    available_at: int | None = None
    deadline_at: int | None = None
    cause: str | None = None
    send_id: str | None = None
    pending: list[str] | None = None


class Logged(Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """An event with its place in the log."""

    shard: int
    position: int
    event: Event


# What a column holds, by its name in the log (camelCase). `instant` is an integer of microseconds.
KINDS: Final = {
    "shard": "int32",
    "position": "int64",
    "at": "instant",
    "letter": "string",
    "kind": "string",
    "target": "string",
    "organization": "string",
    "id": "string",
    "generation": "int32",
    "priority": "int32",
    "token": "int64",
    "attempt": "int32",
    "consumer": "string",
    "service": "string",
    "reason": "string",
    "code": "string",
    "size": "int64",
    "fingerprint": "binary",
    "object": "string",
    "key": "string",
    "topics": "strings",
    "availableAt": "instant",
    "deadlineAt": "instant",
    "cause": "string",
    "sendId": "string",
    "pending": "strings",
}

COLUMNS: Final = tuple(KINDS)  # the whole log, in order
_PACKED: Final = COLUMNS[2:]  # what a block holds; the two before are given by the store
_FIELDS: Final = tuple(f.name for f in structs.fields(Event))
assert tuple(f.encode_name for f in structs.fields(Event)) == _PACKED

# The kinds that end a version of a delivery; each version has exactly one.
ENDINGS: Final = frozenset(
    {
        "kicked",
        "completed",
        "rejected",
        "declined",
        "exhausted",
        "expired",
        "cancelled",
        "purged",
        "obsolete",
        "unchanged",
    }
)

CONSTANT, NUMBERS, STRINGS, LISTS = range(4)  # the four forms of a packed column


def pack(events: Sequence[Event]) -> bytes:
    """A block. A column of one value all through is kept as that value."""
    columns = zip(*map(structs.astuple, events), strict=True)
    packed = [_packed(KINDS[name], column) for name, column in zip(_PACKED, columns, strict=True)]
    return VERSION + msgpack.encode([len(events), packed])


def columns(block: bytes) -> tuple[int, dict[str, list[Any]]]:
    """How many events a block holds, and its columns still packed, by name."""
    if block[:1] != VERSION:
        raise ValueError(f"log block of version {block[:1]!r}; this Fairway reads {VERSION!r}")
    count, packed = msgpack.decode(block[1:])
    return count, dict(zip(_PACKED, packed, strict=True))


def unpack(block: bytes) -> list[Event]:
    """The events of a block again, equal to what was packed."""
    count, packed = columns(block)
    rows = zip(*(_plain(KINDS[name], packed[name], count) for name in _PACKED), strict=True)
    return [Event(**dict(zip(_FIELDS, row, strict=True))) for row in rows]


# A packed column is [CONSTANT, value] | [NUMBERS, there, int64s] | [STRINGS, there, lengths, data]
# | [LISTS, there, lengths, strings column]. `there` has a byte a row, 0 where the value is null, or
# is null when none is. Numbers are int64 and lengths int32, both little-endian.


def _packed(kind: str, values: Sequence[Any]) -> list[Any]:
    first = values[0]
    if values.count(first) == len(values):
        return [CONSTANT, first]
    there = None
    if None in values:
        there = bytes(value is not None for value in values)
        empty = _EMPTY.get(kind, 0)
        values = [empty if value is None else value for value in values]
    if kind == "string":
        return [STRINGS, there, *_joined([value.encode() for value in values])]
    if kind == "binary":
        return [STRINGS, there, *_joined(values)]
    if kind == "strings":
        lengths = array("i", map(len, values)).tobytes()
        flat = [item for value in values for item in value]
        return [LISTS, there, lengths, [STRINGS, None, *_joined([item.encode() for item in flat])]]
    return [NUMBERS, there, array("q", values).tobytes()]


_EMPTY: Final[dict[str, Any]] = {"string": "", "binary": b"", "strings": ()}


def _joined(values: Sequence[bytes]) -> tuple[bytes, bytes]:
    return array("i", map(len, values)).tobytes(), b"".join(values)


def _plain(kind: str, column: list[Any], count: int) -> list[Any]:
    form = column[0]
    values: list[Any]
    if form == CONSTANT:
        return [column[1]] * count
    if form == NUMBERS:
        values = list(array("q", column[2]))
    elif form == STRINGS:
        values = _split(column[2], column[3])
        if kind == "string":
            values = [value.decode() for value in values]
    else:
        items = [item.decode() for item in _split(*column[3][2:])]
        ends = list(accumulate(array("i", column[2]), initial=0))
        values = [items[start:end] for start, end in pairwise(ends)]
    there = column[1]
    return (
        values if there is None else [v if t else None for v, t in zip(values, there, strict=True)]
    )


def _split(lengths: bytes, data: bytes) -> list[bytes]:
    ends = list(accumulate(array("i", lengths), initial=0))
    return [data[start:end] for start, end in pairwise(ends)]
