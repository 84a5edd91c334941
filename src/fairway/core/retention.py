"""What rests too long, or is too much: what of a target's history and dead letters goes, with the
heads and names that live as long as their message."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from fairway.core.entries import HEAD, NAME, Known, Need, Target, Unknown
from fairway.core.events import Event
from fairway.core.lifecycle import BODILESS
from fairway.core.plan import Chance, Plan
from fairway.core.records import (
    AnyKey,
    Change,
    Delivery,
    Entry,
    EntryKey,
    Grant,
    Key,
    Load,
    Place,
    Removal,
)

FOREVER = 1 << 62


class Old(Struct, frozen=True, gc=False):
    """What of one place may go: all that came there before an instant, at most so many."""

    place: Place
    before: int
    limit: int
    told: bool  # each with an event: there was time left for it, but no room


class Remove(Struct, frozen=True, gc=False):
    """The oldest of a place, as a store listed them."""

    old: Old
    found: Sequence[Grant]


def old(target: Target, load: Load, now: int, limit: int) -> list[Old]:
    """By age, then by number."""
    kept = target.settings.retention
    found = [
        Old(Place.HISTORY, now - kept.history, limit, told=False),
        Old(Place.DEAD, now - kept.dead, limit, told=False),
    ]
    for place, held, most in (
        (Place.HISTORY, load.history, kept.history_max),
        (Place.DEAD, load.dead, kept.dead_max),
    ):
        if held > most:
            found.append(Old(place, FOREVER, min(limit, held - most), place is Place.DEAD))
    return found


def first_needs(ask: Remove) -> tuple[AnyKey, ...]:
    keys: list[AnyKey] = []
    for one in ask.found:
        keys += [_version(one.delivery), *(key for key in _names(one) if key is not None)]
    return tuple(keys)


def decide(ask: Remove, known: Known, now: int, chance: Chance) -> Plan[int] | int | Need:
    """One change: the records, their heads and names, and what the log is told."""
    try:
        gone = [one for one in ask.found if known.delivery(_version(one.delivery)) is not None]
        if not gone:
            return 0
        named = {entry.the_key: entry for one in gone for entry in _named(one, known)}
    except Unknown as unknown:
        return Need(unknown.keys)
    events = [_removed(one.delivery, now) for one in gone] if ask.old.told else []
    rested = (
        Removal(one.delivery, None if one.delivery.state in BODILESS else one.delivery.send)
        for one in gone
    )
    removes = (*rested, *(Removal(entry) for entry in named.values()))
    return Plan(Change((), tuple(events), removes=removes), len(gone))


def _version(gone: Delivery) -> Key:
    return Key(gone.target, gone.organization, gone.id, gone.generation)


def _names(one: Grant) -> tuple[EntryKey | None, EntryKey | None]:
    """Where its head and its `replaces` name are kept."""
    gone, message = one.delivery, one.message
    head = name = None
    if message.object is not None and message.key is not None:
        head = HEAD.key(gone.target, gone.organization, message.object, message.key)
    if gone.memo.name is not None:
        name = NAME.key(gone.target, gone.organization, gone.memo.name)
    return head, name


def _named(one: Grant, known: Known) -> list[Entry]:
    """Those of them that name this very version."""
    version = (one.delivery.id, one.delivery.generation)
    found: list[Entry] = []
    for key, kind in zip(_names(one), (HEAD, NAME), strict=True):
        entry = known.entry(key) if key is not None else None
        if entry is None:
            continue
        names = kind.read(entry)
        if (names.id, names.generation) == version:
            found.append(entry)
    return found


def _removed(gone: Delivery, now: int) -> Event:
    return Event(
        at=now, letter=gone.state, kind="removed", target=gone.target,
        organization=gone.organization, id=gone.id, generation=gone.generation,
        priority=gone.priority, send_id=gone.send,
    )  # fmt: skip
