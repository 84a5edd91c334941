"""One lease that ends, or is renewed: the facts, the row of the table, what becomes of the delivery."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from fairway.core import limits, retry
from fairway.core.entries import NAME, TARGET, Known, Target
from fairway.core.events import Event
from fairway.core.lifecycle import BODILESS, PLACES, Ready, Row, Verb, When, step
from fairway.core.plan import Chance
from fairway.core.records import (
    Attempt,
    Change,
    Delivery,
    EntryKey,
    Hold,
    Memo,
    Place,
    Put,
    State,
)
from fairway.core.versions import unparked, with_attempt

if TYPE_CHECKING:
    from fairway.core.settle import Settle


class Ending:
    """One lease that ends: the facts, the row, and what becomes of the delivery."""

    def __init__(
        self,
        held: Delivery,
        verb: Verb,
        ask: Settle | None,
        target: Target | None,
        known: Known,
        now: int,
        chance: Chance,
    ) -> None:
        assert held.lease is not None
        self.held = held
        self.verb = verb
        self.ask = ask
        self.target = target
        self.known = known
        self.rules = (target or Target(id="", created=0)).settings
        self.now = now
        self.chance = chance
        self.lease = held.lease
        took = held.memo.name
        self.name = NAME.key(held.target, held.organization, took) if took is not None else None
        self.successor = _successor(held, self.name, known)
        self.confirmed = self._with_this_consumer()

    def change(self) -> tuple[Change, Delivery]:
        """What to commit, and what the delivery is then."""
        row = step(self.verb, Place.LEASED, self)
        assert row is not None
        if row.to is None:
            return self._extended(row)
        moved = self._moved(row, row.to)
        forgets = moved.send if moved.state in BODILESS else None
        puts = [Put(moved, self.held, self._hold(), forgets=forgets)]
        events = [self._event(moved, row)]
        parked = self.held.memo.parked
        if parked is not None and moved.place in (Place.HISTORY, Place.DEAD):
            ready = unparked(self.held, parked, self.now, self.chance.sequence)
            puts.append(Put(ready, moved))
            events.append(_ready_event(ready, self.now))
        return Change(tuple(puts), tuple(events), holds=self._decided_with()), moved

    def _hold(self) -> Hold:
        if self.ask is not None:
            return Hold.RUNS
        return Hold.OVER if self.verb is Verb.LAPSE else Hold.ANY

    def _extended(self, row: Row) -> tuple[Change, Delivery]:
        """Never shorter than it was, never beyond 12 hours in all; counted, not logged."""
        asked = self.ask.delay if self.ask is not None else None
        until = min(self.now + (asked or 0), self.lease.since + limits.WINDOW_MAX)
        memo = replace(self.held.memo, **self._counted(row), pulse_at=self.now)
        longer = replace(
            self.held, version=self.held.version + 1, at=max(self.held.at, until), memo=memo
        )
        put = Put(longer, self.held, self._hold())
        return Change((put,), (), holds=self._decided_with()), longer

    def _decided_with(self) -> tuple[tuple[EntryKey, int], ...]:
        """The target, and the name that it took: what is known of them may be old."""
        target = self._version(TARGET.key(self.held.target))
        return (target,) if self.name is None else (target, self._version(self.name))

    def _version(self, key: EntryKey) -> tuple[EntryKey, int]:
        entry = self.known.entry(key)
        return key, entry.version if entry is not None else 0

    def _counted(self, row: Row) -> dict[str, int]:
        added = {name: getattr(self.held.memo, name) + 1 for name in row.add}
        return added | dict.fromkeys(row.zero, 0)

    def __contains__(self, when: When) -> bool:
        """Whether a fact holds; asked only as far down the table as it takes."""
        return FACTS[when](self)

    def _with_this_consumer(self) -> list[str]:
        # Who has no name is told apart by the lease: the queue wanted names when it was sent, and
        # asks for none now.
        name = self.lease.consumer or f"lease {self.held.token}"
        if not self.held.confirmed:
            return [name]
        return sorted({*self.held.confirmed.split("\n"), name})

    def _moved(self, row: Row, to: State) -> Delivery:
        held = self.held
        waits = self._wait(row)
        at = self.now + waits
        keeps_place = row.ready in (Ready.NEVER, Ready.OLD_PLACE)
        later = waits if row.ready is Ready.DELAY else 0
        keeps_confirmed = to is State.PARTLY and row.ready is Ready.NOW
        return replace(
            held,
            version=held.version + 1,
            place=PLACES[to],
            state=to,
            confirmed="\n".join(self.confirmed) if keeps_confirmed else held.confirmed,
            # One rule: the instant of becoming available. Only a release without delay goes back
            # before those who came meanwhile.
            placed=held.placed if keeps_place and not waits else at,
            sequence=held.sequence if keeps_place else self.chance.sequence,
            at=at,
            expires_at=held.expires_at + later,
            # After a lapse the late holder's proof must fail; after a settle it must be known again.
            token=held.token + (self.verb is Verb.LAPSE),
            counted=(),
            memo=self._memo(row),
        )

    def _wait(self, row: Row) -> int:
        if row.ready in (Ready.NEVER, Ready.NOW):
            return 0
        asked = self.ask.delay if self.ask is not None else None
        if asked is not None:
            return asked
        if row.ready is Ready.BACKOFF:
            return retry.delay(self.rules.backoff, self.held.memo.retries, self.chance.draw)
        return self.rules.redelivery_delay if row.ready is Ready.REDELIVERY else 0

    def _memo(self, row: Row) -> Memo:
        """The counters of the table's row, and why, as far as anyone said."""
        memo, ask = self.held.memo, self.ask
        parked = memo.parked.generation if memo.parked else 0
        return replace(
            memo,
            **self._counted(row),
            redelivered=memo.redelivered or row.to is State.RETRY,
            available=self.held.placed if memo.available is None else memo.available,
            confirms=(*memo.confirms, (self.held.token, self.lease.claim))
            if row.to is State.PARTLY and self.verb is Verb.ACK
            else memo.confirms,
            reason=row.reason,
            text=ask.reason if ask else None,
            code=ask.code if ask else None,
            severity=(ask.severity or "error") if ask and row.to is State.REJECTED else None,
            verb=self.verb.value if ask else memo.verb,
            highest=max(memo.highest, parked),
            parked=None,
            successor=self.successor if row.to is State.OBSOLETE else None,
            attempts=memo.attempts if "deliveries" not in row.add else self._attempts(row),
        )

    def _attempts(self, row: Row) -> tuple[Attempt, ...]:
        lease = self.lease
        ended = Attempt(lease.consumer, lease.since, self.now, row.event or "")
        return with_attempt(self.held.memo, ended)

    def _event(self, moved: Delivery, row: Row) -> Event:
        held, lease = self.held, self.lease
        return Event(
            at=self.now, letter=moved.state, kind=row.event or "", target=held.target,
            organization=held.organization, id=held.id, generation=held.generation,
            priority=held.priority, token=held.token, attempt=held.memo.deliveries + 1,
            consumer=lease.consumer or None, service=lease.service,
            reason=moved.memo.reason or moved.memo.text, code=moved.memo.code,
            available_at=moved.at if row.ready is not Ready.NEVER else None,
            cause=self.successor if row.to is State.OBSOLETE else None, send_id=held.send,
        )  # fmt: skip


FACTS: Mapping[When, Callable[[Ending], bool]] = {
    When.DELETED: lambda lease: lease.target is None,
    When.ENOUGH: lambda lease: len(lease.confirmed) >= lease.held.memo.confirmations,
    When.SUPERSEDED: lambda lease: lease.successor is not None,
    When.EXPIRED: lambda lease: lease.held.expires_at <= lease.now,
    When.LAST: lambda lease: lease.held.memo.retries >= lease.rules.max_retries,
    When.WORN: lambda lease: lease.held.memo.deliveries + 1 >= lease.rules.max_deliveries,
    When.PARTLY: lambda lease: bool(lease.held.confirmed),
}


def _successor(held: Delivery, name: EntryKey | None, known: Known) -> str | None:
    """The id of what is newer than a leased delivery: parked behind it, or of its name."""
    if held.memo.parked is not None:
        return held.id
    if name is None:
        return None
    entry = known.entry(name)
    if entry is None:
        return None
    newest = NAME.read(entry)
    return None if (newest.id, newest.generation) == (held.id, held.generation) else newest.id


def _ready_event(ready: Delivery, now: int) -> Event:
    return Event(
        at=now, letter=ready.state, kind="queued", target=ready.target,
        organization=ready.organization, id=ready.id, generation=ready.generation,
        priority=ready.priority, size=ready.size, fingerprint=ready.fingerprint,
        available_at=ready.at, send_id=ready.send,
    )  # fmt: skip
