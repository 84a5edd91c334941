"""What remains of a batch that was only logged, and what each that remains ended.

The chain over sends of one target and organization, in log order, knowing nothing of what came
before. Called by whoever reads the log; core/place.py places what remains.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from fairway.core import topics
from fairway.core.chain import Here, head_key, judge, name_key
from fairway.core.entries import HEAD, Known, Pending, Target
from fairway.core.plan import Chance
from fairway.core.records import (
    AnyKey,
    Delivery,
    Entry,
    EntryKey,
    Load,
    Message,
    Put,
    Record,
    State,
)
from fairway.core.send import Accepted, fingerprint


class Cover(Struct, frozen=True, gc=False):
    """A send that ended in the batch: obsolete, unchanged or duplicate."""

    send: str
    verdict: str
    heads: bool = False  # the last of its batch to be the head of its object's key
    names: bool = False  # the last of its batch to take its `replaces` name


class Placement(Struct, frozen=True, gc=False):
    """A send that remains, and those that ended by it."""

    send: str
    target: str
    covers: tuple[Cover, ...] = ()  # in log order
    at: int = 0  # how many of them came before it
    changed: bool = False  # the batch has shown that it differs from the head before it …
    renewed: bool = False  # … from the version of its id before it


class Logged(Struct, frozen=True, gc=False):
    """A send as the log and its pending entry tell it."""

    message: Message
    waits: Pending


def compact(target: str, entry: Target, batch: Sequence[Logged]) -> list[Placement]:
    """What remains of a batch of one target and organization, in log order."""
    fold = _Fold(target, entry)
    for number, logged in enumerate(batch):
        fold.add(logged, number)
    return fold.placements(batch)


class _Nothing(dict[AnyKey, Record | None]):
    """Records of which nothing is known: none is there."""

    def __missing__(self, key: AnyKey) -> None:
        return None


class _Fold:
    """The chain over a batch, each send on what those before it left."""

    def __init__(self, target: str, entry: Target) -> None:
        self._target = target
        self._entry = entry
        self._records = _Nothing()
        self._ended: dict[str, Cover] = {}  # send → how it ended …
        self._by: dict[str, str] = {}  # … and by which
        self._changed: set[str] = set()
        self._renewed: set[str] = set()
        self._last: dict[EntryKey, str] = {}  # the last that took a head or a name

    def add(self, logged: Logged, number: int) -> None:
        known = Known(self._records)
        ask = accepted(logged, self._target)
        here = here_of(ask, self._target, self._entry, known, Load(), 0, Chance(number, 0.5))
        head = known.entry(here.head) if here.head is not None else None
        verdict = judge(here)
        send = logged.message.send
        if verdict.error is not None:
            return  # the broker says why
        for put in verdict.puts:
            if isinstance(put.now, Entry):
                self._last[put.now.the_key] = send
        if verdict.outcome.outcome == "duplicate":
            self._end(send, "duplicate", verdict.events[0].cause or "")
        elif verdict.outcome.outcome == "unchanged":
            assert head is not None
            named = HEAD.read(head)
            key = replace(here.key, id=named.id, generation=named.generation)
            other = known.delivery(key)
            assert other is not None
            self._end(send, "unchanged", other.send)
        else:
            if head is not None:
                self._changed.add(send)
            if verdict.outcome.outcome == "updated":
                self._renewed.add(send)
            for put in verdict.puts:
                if isinstance(put.now, Delivery) and put.now.state is State.OBSOLETE:
                    self._end(put.now.send, "obsolete", send)
        self._keep(verdict.puts)

    def _end(self, send: str, verdict: str, by: str) -> None:
        self._ended[send] = Cover(send, verdict)
        self._by[send] = by

    def _keep(self, puts: Sequence[Put]) -> None:
        self._records.update(written_by(puts))

    def placements(self, batch: Sequence[Logged]) -> list[Placement]:
        covers: dict[str, list[Cover]] = {}
        before: dict[str, int] = {}
        following = self._goes_with(batch)
        for logged in batch:
            send = logged.message.send
            if send in self._ended:
                covers.setdefault(following[send], []).append(self._cover(logged))
            else:
                before[send] = len(covers.get(send, ()))
        return [
            Placement(
                send,
                self._target,
                tuple(covers.get(send, ())),
                at,
                changed=send in self._changed,
                renewed=send in self._renewed,
            )
            for send, at in before.items()
        ]

    def _cover(self, logged: Logged) -> Cover:
        """What came later in the batch has taken what this one took; else it must be taken."""
        ask = accepted(logged, self._target)
        send = logged.message.send
        head, name = head_key(ask, self._target), name_key(ask, self._target)
        return replace(
            self._ended[send],
            heads=head is not None and self._last.get(head) == send,
            names=name is not None and self._last.get(name) == send,
        )

    def _goes_with(self, batch: Sequence[Logged]) -> dict[str, str]:
        """By which placement each that ended is ended: the next one of its id that remains. Where
        none comes any more, all of its id go with whichever is placed last: the one of the id that
        remained, or one that ended one of them. So versions of an id come one after the other, and
        never before what ended them."""
        order = {logged.message.send: number for number, logged in enumerate(batch)}
        following: dict[str, str] = {}
        trailing: dict[str, list[str]] = {}  # id → those that ended since its last that remains
        remained: dict[str, str] = {}
        for logged in batch:
            send, id = logged.message.send, logged.message.id
            if send in self._ended:
                trailing.setdefault(id, []).append(send)
            else:
                following.update(dict.fromkeys(trailing.pop(id, ()), send))
                remained[id] = send
        for id, sends in trailing.items():
            ends = [self._root(send) for send in sends]
            latest = max((*ends, remained.get(id, ends[0])), key=order.__getitem__)
            following.update(dict.fromkeys(sends, latest))
        return following

    def _root(self, send: str) -> str:
        """Who remains of those that ended one another."""
        while send in self._by:
            send = self._by[send]
        return send


def written_by(puts: Sequence[Put]) -> Iterator[tuple[AnyKey, Record]]:
    """What is to be found under which key once they are written."""
    for put in puts:
        if isinstance(put.now, Entry) or not put.beside:
            yield put.now.the_key, put.now
        if isinstance(put.now, Delivery):
            yield replace(put.now.the_key, generation=put.now.generation), put.now


def accepted(logged: Logged, target: str) -> Accepted:
    waits = logged.waits
    return Accepted(logged.message, [target], True, waits.priority, waits.delay, waits.ttl)


def here_of(
    ask: Accepted,
    target: str,
    entry: Target,
    known: Known,
    load: Load,
    now: int,
    chance: Chance,
) -> Here:
    found = topics.of_target(target, entry.topics, ask.message.topics)
    print_ = fingerprint(ask.message, found)
    return Here(
        ask, target, entry, print_, found, known, load, now, chance,
        head_key(ask, target), name_key(ask, target),
    )  # fmt: skip
