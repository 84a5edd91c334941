"""Does a put hold? The comparison that every store makes before it writes, for those in Python."""

from __future__ import annotations

from collections.abc import Callable

from fairway.core.records import Change, Delivery, Key, Place, Put


def holds(change: Change, newest: Callable[[Key], Delivery | None], now: int) -> bool:
    """Whether every put of the change holds, each on what the one before left."""
    left: dict[Key, Delivery | None] = {}
    for put in change.puts:
        key = put.now.the_key
        if not _holds(put, left[key] if key in left else newest(key), now):
            return False
        left[key] = put.now
    return True


def _holds(put: Put, newest: Delivery | None, now: int) -> bool:
    was = put.was
    if was is None or newest is None:
        return was is newest
    if (was.generation, was.place, was.token) != (newest.generation, newest.place, newest.token):
        return False
    if was.place is Place.WAITING:
        return (was.priority, was.placed, was.sequence) == (
            newest.priority,
            newest.placed,
            newest.sequence,
        )
    if was.place is Place.LEASED:
        return was.lease == newest.lease and (newest.at <= now) == put.lapsed
    return True
