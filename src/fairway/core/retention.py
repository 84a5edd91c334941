"""What rests too long: how far a target's history and dead letters may be removed, and their heads."""

from __future__ import annotations

from collections.abc import Iterable

from fairway.core.entries import HEAD, NAME, Known, Target
from fairway.core.records import AnyKey, Change, Delivery, Entry, EntryKey, Grant, Place


def removable(target: Target, now: int) -> dict[Place, int]:
    """For each place at rest: what came there before this instant may go."""
    kept = target.settings.retention
    return {Place.HISTORY: now - kept.history, Place.DEAD: now - kept.dead}


def first_needs(removed: Iterable[Grant]) -> tuple[AnyKey, ...]:
    return tuple(key for one in removed for key in (_head(one), _name(one.delivery)) if key)


def forget(removed: Iterable[Grant], known: Known) -> Change:
    """A head and a name live as long as the message that they name."""
    drops: dict[AnyKey, Entry] = {}
    for one in removed:
        gone = one.delivery
        for key, kind in ((_head(one), HEAD), (_name(gone), NAME)):
            entry = known.entry(key) if key is not None else None
            if entry is None:
                continue
            names = kind.read(entry)
            if (names.id, names.generation) == (gone.id, gone.generation):
                drops[entry.the_key] = entry
    return Change((), (), drops=tuple(drops.values()))


def _head(one: Grant) -> EntryKey | None:
    gone, message = one.delivery, one.message
    if message.object is None or message.key is None:
        return None
    return HEAD.key(gone.target, gone.organization, message.object, message.key)


def _name(gone: Delivery) -> EntryKey | None:
    if gone.memo.name is None:
        return None
    return NAME.key(gone.target, gone.organization, gone.memo.name)
