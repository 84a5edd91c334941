"""Places what remains of a batch that was only logged: decided like any send, against what is there.

What it covers ends in the same change: each rests as the version that it would have been, so that
what comes later is compared with it. A placement that meets a full queue leaves itself and all it
covers logged; a second one of the same send does nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from fairway.core.chain import Here, Verdict, judge, obsolete, unchanged
from fairway.core.compact import Cover, Logged, Placement, accepted, here_of, written_by
from fairway.core.entries import PENDING, TARGET, Known, Need, Unknown
from fairway.core.errors import FairwayError, QueueFull
from fairway.core.events import Event
from fairway.core.plan import Chance, Plan
from fairway.core.records import (
    AnyKey,
    Change,
    Delivery,
    Entry,
    EntryKey,
    Key,
    Load,
    Message,
    Put,
    Record,
    Removal,
    State,
)
from fairway.core.send import Outcome


class Placing(Struct, frozen=True, gc=False):
    """A placement with the messages of its sends."""

    placement: Placement
    messages: Mapping[str, Message | None]


def pending_key(target: str, message: Message) -> EntryKey:
    return PENDING.key(target, message.organization, message.id, message.send)


def first_needs(ask: Placing) -> tuple[AnyKey, ...]:
    target = ask.placement.target
    messages = (message for message in ask.messages.values() if message is not None)
    return (TARGET.key(target), *(pending_key(target, message) for message in messages))


def decide(
    ask: Placing, known: Known, now: int, chance: Chance, loads: Mapping[str, Load]
) -> Plan[Outcome] | Outcome | Need | FairwayError:
    """What to commit, or that there is nothing to place, or that it must wait."""
    try:
        return _decide(ask, known, now, chance, loads)
    except Unknown as unknown:
        return Need(unknown.keys)


def _decide(
    ask: Placing, known: Known, now: int, chance: Chance, loads: Mapping[str, Load]
) -> Plan[Outcome] | Outcome:
    target = ask.placement.target
    waiting = _waiting(ask, known)
    entry = known.entry(TARGET.key(target))
    if ask.placement.send not in waiting or entry is None:
        return Outcome(target, "placed-before")
    refused: dict[str, str] = {}
    for send in (ask.placement.send, *_fallbacks(ask.placement, waiting)):
        replay = _Replay(ask.placement, waiting, send, refused, entry, known, now, chance, loads)
        verdict = replay.verdict()
        if isinstance(verdict.error, QueueFull):
            return Outcome(target, "logged", State.LOGGED, retryable=True, reason="queue-full")
        if verdict.error is None:
            return replay.plan()
        refused[send] = verdict.error.code
    replay = _Replay(ask.placement, waiting, None, refused, entry, known, now, chance, loads)
    replay.verdict()
    return replay.plan()


class _Over(Known):
    """What is known, with what a change under way writes over it."""

    def __init__(self, under: Known) -> None:
        self._written: dict[AnyKey, Record | None] = {}
        super().__init__(self._written)
        self._under = under

    def delivery(self, key: Key) -> Delivery | None:
        return super().delivery(key) if key in self._written else self._under.delivery(key)

    def delivery_if_any(self, key: Key) -> Delivery | None:
        return self.delivery(key)

    def entry(self, key: EntryKey) -> Entry | None:
        return super().entry(key) if key in self._written else self._under.entry(key)

    def write(self, puts: Sequence[Put]) -> None:
        self._written.update(written_by(puts))


class _Replay:
    """The chain over a placement's sends in log order: one is placed, the others end as they must."""

    def __init__(
        self,
        placement: Placement,
        waiting: Mapping[str, tuple[Logged, Entry]],
        placed: str | None,
        refused: Mapping[str, str],
        entry: Entry,
        known: Known,
        now: int,
        chance: Chance,
        loads: Mapping[str, Load],
    ) -> None:
        self._target = placement.target
        self._placement = placement
        self._waiting = waiting
        self._placed = placed
        self._refused = refused
        self._entry = entry
        self._known = _Over(known)
        self._now = now
        self._chance = chance
        self._load = loads.get(placement.target, Load())
        covers = {cover.send: cover for cover in placement.covers}
        sends = [cover.send for cover in placement.covers]
        sends.insert(placement.at, placement.send)
        self._sends = [(send, covers.get(send)) for send in sends if send in waiting]
        self._made = Verdict(Outcome(self._target, "refused"))
        self._puts: list[Put] = []
        self._events: list[Event] = []

    def verdict(self) -> Verdict:
        """Runs it; what became of the one that is placed."""
        for send, cover in self._sends:
            here = self._here(send)
            if send in self._refused:
                self._events.append(self._ended(send, "refused", self._refused[send]))
            elif send == self._placed:
                placed = self._placement
                self._made = judge(replace(here, changed=placed.changed, renewed=placed.renewed))
                if self._made.error is not None:
                    return self._made
                self._take(self._made.puts, self._made.events)
            elif cover is not None:
                self._end(here, cover)
        return self._made

    def _end(self, here: Here, cover: Cover) -> None:
        here = replace(
            here,
            head=here.head if cover.heads else None,
            name=here.name if cover.names else None,
        )
        if cover.verdict == "obsolete":
            self._take(*obsolete(here, self._placed))
        elif cover.verdict == "unchanged":
            made = unchanged(here, here.known.delivery(here.key))
            self._take(made.puts, made.events)
        else:
            self._events.append(self._ended(cover.send, "duplicate", None))

    def plan(self) -> Plan[Outcome]:
        # What is placed keeps its body; what ends, or is known already, needs it no more.
        keeps = self._placed if self._made.holders else None
        removes = tuple(
            Removal(held, None if send == keeps else send)
            for send, (_, held) in self._waiting.items()
        )
        change = Change(
            puts=tuple(self._puts),
            events=tuple(self._events),
            removes=removes,
            holds=((self._entry.the_key, self._entry.version),),
        )
        return Plan(change, self._made.outcome)

    def _here(self, send: str) -> Here:
        ask = accepted(self._waiting[send][0], self._target)
        settings = TARGET.read(self._entry)
        return here_of(
            ask, self._target, settings, self._known, self._load, self._now, self._chance
        )

    def _take(self, puts: Sequence[Put], events: Sequence[Event]) -> None:
        self._known.write(puts)
        self._puts += puts
        self._events += events

    def _ended(self, send: str, kind: str, reason: str | None) -> Event:
        """It never was a delivery, so it has no generation."""
        message = self._waiting[send][0].message
        return Event(
            at=self._now, letter="D", kind=kind, target=self._target,
            organization=message.organization, id=message.id, generation=0, reason=reason,
            cause=None if kind == "refused" else self._placed, send_id=send,
        )  # fmt: skip


def _waiting(ask: Placing, known: Known) -> dict[str, tuple[Logged, Entry]]:
    """Its sends that are still logged and not placed."""
    found: dict[str, tuple[Logged, Entry]] = {}
    for send, message in ask.messages.items():
        entry = None if message is None else known.entry(pending_key(ask.placement.target, message))
        if message is not None and entry is not None:
            found[send] = (Logged(message, PENDING.read(entry)), entry)
    return found


def _fallbacks(placement: Placement, waiting: Mapping[str, Any]) -> list[str]:
    """Who is placed instead if it is refused: the newest that it made obsolete, and so on."""
    covered = [c.send for c in placement.covers if c.verdict == "obsolete" and c.send in waiting]
    return covered[::-1]
