"""The Arrow stream of a range says exactly what the packed events say, wherever it is cut."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.arrow import Stream
from fairway.core.events import COLUMNS, KINDS, Event, pack

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
TYPES = {
    "int32": pa.int32(),
    "int64": pa.int64(),
    "instant": pa.timestamp("us", tz="UTC"),
    "string": pa.string(),
    "binary": pa.binary(),
    "strings": pa.list_(pa.string()),
}

texts = st.text(max_size=6)
int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
instants = st.integers(0, 2**51)
lists = st.lists(texts, max_size=3)
events = st.builds(
    Event,
    at=instants,
    letter=st.sampled_from("LQFX"),
    kind=texts,
    target=texts,
    organization=st.sampled_from(["", "acme"]),
    id=texts,
    generation=int32s,
    priority=st.none() | int32s,
    token=st.none() | int64s,
    attempt=st.none() | int32s,
    consumer=st.none() | texts,
    service=st.none() | texts,
    reason=st.none() | texts,
    code=st.none() | texts,
    size=st.none() | int64s,
    fingerprint=st.none() | st.binary(max_size=5),
    object=st.none() | texts,
    key=st.none() | texts,
    topics=st.none() | lists,
    available_at=st.none() | instants,
    deadline_at=st.none() | instants,
    cause=st.none() | texts,
    send_id=st.none() | texts,
    pending=st.none() | lists,
)


def plain(event: Event, shard: int, position: int) -> dict[str, Any]:
    """What a reader of the log expects of one event."""
    values = [shard, position, *(getattr(event, name) for name in Event.__struct_fields__)]
    row = dict(zip(COLUMNS, values, strict=True))
    for name, kind in KINDS.items():
        if kind == "instant" and row[name] is not None:
            row[name] = EPOCH + dt.timedelta(microseconds=row[name])
    return row


def blocks_of(parts: list[list[Event]], start: int) -> list[tuple[int, bytes]]:
    blocks: list[tuple[int, bytes]] = []
    for part in parts:
        blocks.append((start, pack(part)))
        start += len(part)
    return blocks


def table(stream: Stream, *batches: bytes) -> pa.Table:
    whole = b"".join([stream.start(), *batches, stream.end()])
    read = pa.ipc.open_stream(whole).read_all()
    read.validate(full=True)
    return read


@given(st.lists(st.lists(events, min_size=1, max_size=12), min_size=1, max_size=4), st.data())
def test_a_range_holds_the_events_between_its_ends(parts: list[list[Event]], data: st.DataObject):
    start = data.draw(st.integers(1, 2**40))
    rows = [plain(e, 3, start + i) for i, e in enumerate(e for part in parts for e in part)]
    first = data.draw(st.integers(0, len(rows) - 1))
    last = data.draw(st.integers(first, len(rows) - 1))
    columns = data.draw(st.none() | st.lists(st.sampled_from(COLUMNS), min_size=1, unique=True))

    stream = Stream(3, columns)
    read = table(stream, stream.batch(blocks_of(parts, start), start + first, start + last))

    expected = [{name: row[name] for name in columns or COLUMNS} for row in rows[first : last + 1]]
    assert read.to_pylist() == expected
    assert read.schema.names == list(columns or COLUMNS)
    assert read.schema.types == [TYPES[KINDS[name]] for name in read.schema.names]


@given(st.lists(events, min_size=1, max_size=12), st.data())
def test_the_bytes_do_not_depend_on_how_events_were_packed(rows: list[Event], data: st.DataObject):
    cut = data.draw(st.integers(1, len(rows)))
    parts = [part for part in (rows[:cut], rows[cut:]) if part]
    stream = Stream(0, None)
    assert stream.batch(blocks_of([rows], 1), 1, len(rows)) == stream.batch(
        blocks_of(parts, 1), 1, len(rows)
    )


def event(**facts: Any) -> Event:
    return Event(at=5, letter="Q", kind="queued", target="t", organization="", id="a", **facts)


def test_several_batches_make_one_stream():
    stream = Stream(0, ["position", "topics"])
    blocks = blocks_of([[event(topics=["ä", ""]), event(topics=[])], [event()]], 1)
    read = table(stream, stream.batch(blocks, 1, 2), stream.batch(blocks, 3, 3))
    assert read.to_pydict() == {"position": [1, 2, 3], "topics": [["ä", ""], [], None]}


def test_a_stream_may_have_no_batch():
    assert table(Stream(0, None)).num_rows == 0


def test_a_range_beside_its_blocks_is_an_empty_batch():
    stream = Stream(0, None)
    assert table(stream, stream.batch(blocks_of([[event()]], 7), 1, 6)).num_rows == 0


def test_a_gap_between_blocks_is_refused():
    blocks = [(1, pack([event()])), (3, pack([event()]))]
    with pytest.raises(ValueError, match="begins at 3, expected 2"):
        Stream(0, None).batch(blocks, 1, 3)


@pytest.mark.parametrize(
    ("columns", "said"),
    [(["at", "colour"], "'colour'"), ([], "at least one"), (["at", "at"], "none twice")],
)
def test_columns_that_make_no_sense_are_refused(columns: list[str], said: str):
    with pytest.raises(ValueError, match=said):
        Stream(0, columns)
