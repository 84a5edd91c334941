"""Does a change hold? The comparison that every store makes before it writes, for those in Python."""

from __future__ import annotations

from collections.abc import Callable

from fairway.core.records import (
    AnyKey,
    Change,
    Delivery,
    Entry,
    Hold,
    Key,
    Place,
    Put,
    Record,
)

AT_REST = (Place.HISTORY, Place.DEAD)


def holds(change: Change, newest: Callable[[AnyKey], Record | None], now: int) -> bool:
    """Whether every part of the change holds, each put on what the one before left."""
    left: dict[AnyKey, Record | None] = {}
    for key, version in change.holds:
        found = newest(key)
        if version != (found.version if found is not None else 0):
            return False
    for removal in change.removes:
        there = newest(removed_key(removal.gone))
        if there is None or there.version != removal.gone.version:
            return False
    for put in change.puts:
        key = put.now.the_key
        if put.beside:
            if newest(at_rest(put.now)) is not None:
                return False
            continue
        there = left[key] if key in left else newest(key)
        if not _holds(put, there, now):
            return False
        left[key] = put.now
    return True


def removed_key(record: Record) -> AnyKey:
    """An entry's, or that of just this version."""
    return record.the_key if isinstance(record, Entry) else at_rest(record)


def at_rest(record: Record) -> Key:
    """The key of just this version."""
    assert isinstance(record, Delivery)
    return Key(record.target, record.organization, record.id, record.generation)


def named(change: Change) -> set[AnyKey]:
    """Every key that a change names: what a conflict brings back."""
    return {
        *(key for key, _ in change.holds),
        *(removed_key(removal.gone) for removal in change.removes),
        *(put.now.the_key for put in change.puts),
    }


def _holds(put: Put, newest: Record | None, now: int) -> bool:
    was = put.was
    if was is None or newest is None:
        return was is newest
    if was.version != newest.version:
        return False
    if isinstance(was, Entry) or isinstance(newest, Entry):
        return True
    if (was.generation, was.place, was.token) != (newest.generation, newest.place, newest.token):
        return False
    if was.place is Place.LEASED and put.hold is not Hold.ANY:
        return (newest.at <= now) == (put.hold is Hold.OVER)
    return True
