"""A range of the event log as an Arrow IPC stream, for the server and for readers of a local store.

The same range gives the same bytes, however its events were packed into blocks: nulls hold zeros,
and a column without a null has no validity buffer.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from io import BytesIO
from itertools import accumulate
from typing import Any, Final, NamedTuple

import nanoarrow as na
from nanoarrow.c_array import CArray
from nanoarrow.c_array_stream import CArrayStream
from nanoarrow.ipc import StreamWriter

from fairway.core.events import COLUMNS, CONSTANT, KINDS, columns

_TYPES: Final = {
    "int32": na.int32(),
    "int64": na.int64(),
    "instant": na.timestamp("us", timezone="UTC"),
    "string": na.string(),
    "binary": na.binary(),
    "strings": na.list_(na.string()),
}
_END: Final = b"\xff\xff\xff\xff\x00\x00\x00\x00"
_ZERO: Final = bytes(8)
_DIGITS: Final = bytes([ord("0"), ord("1")]) + bytes(254)  # a `there` byte → a binary digit


class _Cut(NamedTuple):
    """Rows lo..hi (hi not included) of one packed column of one block."""

    column: list[Any]
    lo: int
    hi: int


class Stream:
    """The three kinds of message of one stream; their bytes in order are the stream."""

    def __init__(self, shard: int, columns: Sequence[str] | None) -> None:
        """Columns come in the order asked for; None is the whole log."""
        self._shard = shard
        self._columns = COLUMNS if columns is None else tuple(columns)
        if unknown := [name for name in self._columns if name not in KINDS]:
            raise ValueError(f"no column {unknown[0]!r} in the event log")
        if not self._columns or len(set(self._columns)) < len(self._columns):
            raise ValueError("name at least one column, and none twice")
        fields = {name: _TYPES[KINDS[name]] for name in self._columns}
        self._schema = na.c_schema(na.struct(fields))

    def start(self) -> bytes:
        """The schema message."""
        return self._message([], with_schema=True)

    def batch(self, blocks: Sequence[tuple[int, bytes]], first: int, last: int) -> bytes:
        """One record batch: the events of these blocks whose positions lie in first..last.

        A block is given with the position of its first event; they are dense and in order. A batch
        lies in memory whole, several times: callers keep to `limits.READ_ROWS`.
        """
        found = list(_overlaps(blocks, first, last))
        rows = sum(hi - lo for _, lo, hi in found)
        first = max(first, blocks[0][0]) if blocks else first
        children = [self._child(name, found, first, rows) for name in self._columns]
        whole = na.c_array_from_buffers(self._schema, rows, [None], children=children, move=True)
        return self._message([whole], with_schema=False)

    def end(self) -> bytes:
        """The mark after the last batch."""
        return _END

    def _child(
        self, name: str, found: list[tuple[dict[str, list[Any]], int, int]], first: int, rows: int
    ) -> CArray:
        if name == "shard":
            return _array("int32", rows, b"", array("i", [self._shard]) * rows)
        if name == "position":
            return _array("int64", rows, b"", array("q", range(first, first + rows)))
        cuts = [_Cut(packed[name], lo, hi) for packed, lo, hi in found]
        there = b"".join(map(_there, cuts))
        kind = KINDS[name]
        if kind == "strings":
            return _lists(rows, there, cuts)
        if kind in ("string", "binary"):
            lengths, data = _strings(cuts)
            return _array(kind, rows, there, _offsets(lengths), data)
        numbers = b"".join(map(_numbers, cuts))
        if kind == "int32":  # int64, little-endian: the lower halves
            numbers = memoryview(numbers).cast("i")[::2].tobytes()
        return _array(kind, rows, there, numbers)

    def _message(self, batches: list[CArray], *, with_schema: bool) -> bytes:
        out = BytesIO()
        writer = StreamWriter.from_writable(out)
        stream = CArrayStream.from_c_arrays(batches, self._schema)
        writer.write_stream(stream, write_schema=with_schema)
        writer.release()  # not close(): that would end the stream
        return out.getvalue()


def _overlaps(
    blocks: Sequence[tuple[int, bytes]], first: int, last: int
) -> Iterator[tuple[dict[str, list[Any]], int, int]]:
    expected = None
    for start, block in blocks:
        count, packed = columns(block)
        if expected not in (None, start):
            raise ValueError(f"a block begins at {start}, expected {expected}")
        expected = start + count
        lo, hi = max(first - start, 0), min(last - start + 1, count)
        if lo < hi:
            yield packed, lo, hi


def _there(cut: _Cut) -> bytes:
    """A byte a row, 0 where it is null."""
    rows = cut.hi - cut.lo
    if cut.column[0] == CONSTANT:
        return bytes(rows) if cut.column[1] is None else b"\x01" * rows
    there = cut.column[1]
    return b"\x01" * rows if there is None else there[cut.lo : cut.hi]


def _numbers(cut: _Cut) -> bytes:
    if cut.column[0] != CONSTANT:
        return cut.column[2][8 * cut.lo : 8 * cut.hi]
    value = cut.column[1]
    one = _ZERO if value is None else value.to_bytes(8, "little", signed=True)
    return one * (cut.hi - cut.lo)


def _strings(cuts: list[_Cut]) -> tuple[array[int], bytes]:
    lengths, data = array("i"), list[bytes]()
    for column, lo, hi in cuts:
        if column[0] == CONSTANT:
            one = _bytes(column[1])
            some, piece = array("i", [len(one)]) * (hi - lo), one * (hi - lo)
        else:
            some, piece = _cut_strings(column[2], column[3], lo, hi)
        lengths += some
        data.append(piece)
    return lengths, b"".join(data)


def _lists(rows: int, there: bytes, cuts: list[_Cut]) -> CArray:
    lengths, item_lengths, data = array("i"), array("i"), list[bytes]()
    for column, lo, hi in cuts:
        if column[0] == CONSTANT:
            one = [item.encode() for item in column[1] or ()]
            lengths += array("i", [len(one)]) * (hi - lo)
            item_lengths += array("i", map(len, one)) * (hi - lo)
            data.append(b"".join(one) * (hi - lo))
            continue
        some = array("i", column[2][4 * lo : 4 * hi])
        before = sum(array("i", column[2][: 4 * lo]))
        items = column[3]
        some_items, piece = _cut_strings(items[2], items[3], before, before + sum(some))
        lengths += some
        item_lengths += some_items
        data.append(piece)
    items = _array("string", len(item_lengths), b"", _offsets(item_lengths), b"".join(data))
    return _array("strings", rows, there, _offsets(lengths), children=(items,))


def _cut_strings(lengths: bytes, data: bytes, lo: int, hi: int) -> tuple[array[int], bytes]:
    start = sum(array("i", lengths[: 4 * lo]))
    some = array("i", lengths[4 * lo : 4 * hi])
    return some, data[start : start + sum(some)]


def _bytes(value: str | bytes | None) -> bytes:
    return value.encode() if isinstance(value, str) else value or b""


def _offsets(lengths: array[int]) -> array[int]:
    return array("i", accumulate(lengths, initial=0))


def _array(
    kind: str, rows: int, there: bytes, *buffers: Any, children: Sequence[CArray] = ()
) -> CArray:
    nulls = there.count(0)
    valid = _bits(there) if nulls else None
    return na.c_array_from_buffers(
        _TYPES[kind], rows, [valid, *buffers], null_count=nulls, children=children, move=True
    )


def _bits(there: bytes) -> bytes:
    """A bit a row, lowest first: read as one binary number, which is linear for base 2."""
    return int(there.translate(_DIGITS)[::-1], 2).to_bytes((len(there) + 7) // 8, "little")
