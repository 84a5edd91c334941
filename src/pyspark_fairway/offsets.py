"""Which positions of the log a read takes: offsets in, closed ranges out. No Spark, no I/O.

An offset is the last position already read. So a read takes (start, end], the end of one read is
the start of the next, and 0 is before the first event.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from fairway.core.records import LogState
from pyspark_fairway.errors import ConnectorError

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
FORM: Final = 1


class Offsets(NamedTuple):
    """The last position already read of each shard, and of which log."""

    log: str
    positions: Mapping[int, int]

    def as_json(self) -> str:
        positions = {str(shard): at for shard, at in sorted(self.positions.items())}
        return json.dumps({"v": FORM, "log": self.log, "p": positions}, separators=(",", ":"))


class Range(NamedTuple):
    """Positions first..last of one shard of one log."""

    log: str
    shard: int
    first: int
    last: int


def from_json(option: str, text: str) -> Offsets:
    """Offsets as `as_json` writes them."""
    try:
        found: Any = json.loads(text)
        if found["v"] != FORM:
            raise ValueError(f"version {found['v']!r}")
        offsets = Offsets(str(found["log"]), {int(k): int(at) for k, at in found["p"].items()})
        if any(at < 0 for at in offsets.positions.values()):
            raise ValueError("a negative position")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConnectorError(
            "BAD_OFFSETS",
            f"{option} is {text!r} ({error})",
            'give "earliest", "latest" or {"v":1,"log":"<identity>","p":{"<shard>":<position>}}',
        ) from None
    return offsets


def starting(text: str, log: LogState) -> Offsets:
    """Where a read begins. Shards that are not named begin with their first event."""
    if text == LATEST:
        return latest(log)
    before = {shard.shard: shard.earliest - 1 for shard in log.shards}
    if text == EARLIEST:
        return Offsets(log.log, before)
    named = _checked("startingOffsets", text, log)
    return Offsets(log.log, before | dict(named.positions))


def ending(text: str, log: LogState) -> Offsets:
    """Where a read ends. Shards that are not named are not read: they may be younger than it."""
    if text == LATEST:
        return latest(log)
    if text == EARLIEST:
        raise ConnectorError("BAD_OFFSETS", "endingOffsets is earliest", 'leave it at "latest"')
    return _checked("endingOffsets", text, log)


def latest(log: LogState) -> Offsets:
    """The end of what is readable now."""
    return Offsets(log.log, {shard.shard: shard.latest for shard in log.shards})


def check_identity(recorded: str, log: LogState) -> None:
    """Positions of another log mean nothing in this one."""
    if recorded != log.log:
        raise ConnectorError(
            "OTHER_LOG",
            f"the offsets belong to log {recorded}, this one is {log.log}: the store was wiped, "
            "restored or is another",
            "check the url, or begin again with startingOffsets=earliest (a lake: in a new folder)",
        )


def between(
    start: Offsets, end: Offsets, log: LogState, lost: Callable[[ConnectorError], None]
) -> list[Range]:
    """The closed ranges of (start, end]. `lost` is told of events that are gone; it may raise."""
    ranges: list[Range] = []
    for shard in log.shards:
        if shard.shard not in end.positions:
            continue
        after, last = start.positions[shard.shard], end.positions[shard.shard]
        if last < after:
            raise ConnectorError(
                "BAD_OFFSETS",
                f"shard {shard.shard} would be read from {after + 1} to {last}",
                "set endingOffsets behind startingOffsets",
            )
        if last > after and after < shard.earliest - 1:
            lost(_gone(shard.shard, after + 1, min(last, shard.earliest - 1)))
        first = max(after + 1, shard.earliest)
        if first <= last:
            ranges.append(Range(log.log, shard.shard, first, last))
    return ranges


def cut(ranges: Iterable[Range], most: int) -> Iterator[Range]:
    """The same positions in pieces of nearly equal size, none larger than `most`."""
    for whole in ranges:
        size = whole.last - whole.first + 1
        pieces = -(-size // most)
        edges = [whole.first + size * i // pieces for i in range(pieces + 1)]
        for first, after in itertools.pairwise(edges):
            yield whole._replace(first=first, last=after - 1)


def _checked(option: str, text: str, log: LogState) -> Offsets:
    offsets = from_json(option, text)
    check_identity(offsets.log, log)
    ends = {shard.shard: shard.latest for shard in log.shards}
    for shard, at in offsets.positions.items():
        if shard not in ends:
            raise ConnectorError(
                "BAD_OFFSETS",
                f"{option} names shard {shard}, the log has {', '.join(map(str, ends)) or 'none'}",
                "leave it out",
            )
        if at > ends[shard]:
            raise ConnectorError(
                "DATA_LOSS",
                f"{option} is {at} in shard {shard}, but the log ends at {ends[shard]}: "
                "its tail was lost, or these offsets were never its own",
                "check the store, or begin again with startingOffsets=earliest",
            )
    return offsets


def _gone(shard: int, first: int, last: int) -> ConnectorError:
    return ConnectorError(
        "DATA_LOSS",
        f"events {first} to {last} of shard {shard} are past the retention of the log",
        "read on without them with option failOnDataLoss=false, or begin again with "
        "startingOffsets=earliest; a longer eventsMs on the server keeps them longer",
    )
