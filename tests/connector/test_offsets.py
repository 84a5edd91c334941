"""Offsets to closed ranges: nothing twice, nothing left out, nothing lost in silence."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.core.records import LogState, ShardState
from pyspark_fairway import offsets
from pyspark_fairway.errors import ConnectorError
from pyspark_fairway.offsets import Offsets, Range

LOG = LogState("abc", [ShardState(0, 1, 100), ShardState(1, 21, 20), ShardState(2, 11, 30)])


def fail(error: ConnectorError) -> None:
    raise error


def ranges(start: str, end: str, log: LogState = LOG) -> list[tuple[int, int, int]]:
    found = offsets.between(offsets.starting(start, log), offsets.ending(end, log), log, fail)
    return [(part.shard, part.first, part.last) for part in found]


def at(positions: dict[str, int], log: str = "abc") -> str:
    return json.dumps({"v": 1, "log": log, "p": positions})


def test_earliest_to_latest_is_all_that_can_be_read():
    assert ranges("earliest", "latest") == [(0, 1, 100), (2, 11, 30)]


def test_an_offset_was_already_read():
    assert ranges(at({"0": 40, "2": 30}), at({"0": 50, "2": 30})) == [(0, 41, 50)]


def test_a_shard_not_named_begins_with_its_first_event_and_is_not_read_to_an_end():
    assert ranges(at({"0": 99}), "latest") == [(0, 100, 100), (2, 11, 30)]
    assert ranges("earliest", at({"2": 12})) == [(2, 11, 12)]


def test_from_latest_to_latest_is_nothing():
    assert ranges("latest", "latest") == []


def test_offsets_survive_their_json():
    there = Offsets("abc", {2: 30, 0: 7})
    assert offsets.from_json("x", there.as_json()) == there
    assert there.as_json() == '{"v":1,"log":"abc","p":{"0":7,"2":30}}'


def test_lost_events_are_named_with_the_ways_out():
    with pytest.raises(ConnectorError) as caught:
        ranges(at({"2": 4}), "latest")
    assert "FAIRWAY_DATA_LOSS: events 5 to 10 of shard 2" in str(caught.value)
    assert "failOnDataLoss=false" in str(caught.value)
    assert "startingOffsets=earliest" in str(caught.value)


def test_lost_events_may_be_left_out():
    told: list[ConnectorError] = []
    start, end = offsets.starting(at({"2": 4}), LOG), offsets.latest(LOG)
    found = offsets.between(start, end, LOG, told.append)
    assert Range("abc", 2, 11, 30) in found
    assert len(told) == 1


def test_a_range_that_is_lost_whole_is_told_and_empty():
    told: list[ConnectorError] = []
    start, end = offsets.starting(at({"2": 4}), LOG), offsets.ending(at({"2": 8}), LOG)
    assert offsets.between(start, end, LOG, told.append) == []
    assert "events 5 to 8 of shard 2" in str(told[0])


@pytest.mark.parametrize(
    ("start", "end", "code"),
    [
        (at({"0": 1}, log="other"), "latest", "OTHER_LOG"),
        ("earliest", at({"0": 1}, log="other"), "OTHER_LOG"),
        (at({"7": 1}), "latest", "BAD_OFFSETS"),
        (at({"0": 101}), "latest", "DATA_LOSS"),
        (at({"0": 50}), at({"0": 40}), "BAD_OFFSETS"),
        (at({"0": -1}), "latest", "BAD_OFFSETS"),
        ("earliest", "earliest", "BAD_OFFSETS"),
        ("yesterday", "latest", "BAD_OFFSETS"),
        ('{"v":2,"log":"abc","p":{}}', "latest", "BAD_OFFSETS"),
        ("[]", "latest", "BAD_OFFSETS"),
    ],
)
def test_offsets_that_make_no_sense_are_refused(start: str, end: str, code: str):
    with pytest.raises(ConnectorError, match=f"^FAIRWAY_{code}: .*; do "):
        ranges(start, end)


@given(
    st.lists(st.tuples(st.integers(1, 10**6), st.integers(1, 2_000)), max_size=3),
    st.integers(1, 700),
)
def test_cutting_keeps_every_position_once(wholes: list[tuple[int, int]], most: int):
    given_ranges = [
        Range("abc", shard, first, first + size - 1) for shard, (first, size) in enumerate(wholes)
    ]
    pieces = list(offsets.cut(given_ranges, most))
    sizes = [piece.last - piece.first + 1 for piece in pieces]
    assert all(1 <= size <= most for size in sizes)
    assert [(p.shard, at) for p in pieces for at in range(p.first, p.last + 1)] == [
        (whole.shard, at) for whole in given_ranges for at in range(whole.first, whole.last + 1)
    ]
    for whole in given_ranges:
        mine = [piece.last - piece.first for piece in pieces if piece.shard == whole.shard]
        assert max(mine) - min(mine) <= 1
