"""What ends a lease: the holder's answer, or its lapse. And what renews it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from fairway.core import ackid, limits, retry, topics
from fairway.core.ackid import Proof
from fairway.core.entries import NAME, TARGET, Known, Need, Target, Unknown
from fairway.core.errors import AlreadySettled, FairwayError, InvalidInput, LeaseLost
from fairway.core.events import Event
from fairway.core.lifecycle import BODILESS, PLACES, Ready, Row, Verb, When, step
from fairway.core.plan import Chance, Plan
from fairway.core.records import (
    AnyKey,
    Attempt,
    Change,
    Delivery,
    EntryKey,
    Hold,
    Key,
    Memo,
    Place,
    Put,
    State,
)
from fairway.core.versions import unparked, with_attempt

SEVERITIES = ("error", "critical")
SETTLES = {
    verb.value: verb
    for verb in (
        Verb.ACK,
        Verb.NAK,
        Verb.REQUEUE,
        Verb.REJECT,
        Verb.DECLINE,
        Verb.RESCHEDULE,
        Verb.RELEASE,
        Verb.EXTEND,
    )
}


class Settle(Struct, frozen=True, gc=False):
    """What a holder answers, with the proof of its lease. `delay` of an extend: the new window."""

    verb: Verb
    target: str
    id: str
    ack_id: str
    reason: str | None = None
    code: str | None = None
    severity: str | None = None
    delay: int | None = None
    organization: str | None = None  # where it was named, it must be the lease's


class Proved(Struct, frozen=True, gc=False):
    """A settle that was checked, with what its ack id says."""

    ask: Settle
    proof: Proof

    @property
    def key(self) -> Key:
        return Key(self.ask.target, self.proof.organization, self.ask.id)


class Return(Struct, frozen=True, gc=False):
    """The system takes it back: the lease lapsed (LAPSE), or was granted in vain (RELEASE)."""

    leased: Delivery
    verb: Verb = Verb.LAPSE

    @property
    def key(self) -> Key:
        return self.leased.the_key


class Settled(Struct, frozen=True, gc=False, omit_defaults=True):
    """The answer to a settle: where the delivery is now."""

    state: State
    outcome: str = "ok"
    replaced_by: str | None = None
    deadline_at: int | None = None  # of an extend
    superseded: bool = False  # of an extend: go on, but it will not come back


def prove(ask: Settle) -> Proved:
    """The settle with its proof, or the error that names the field."""
    if ask.reason is not None:
        _check_reason(ask.reason)
    if ask.code is not None:
        topics.check_name("code", ask.code)
    if ask.severity is not None and ask.severity not in SEVERITIES:
        raise InvalidInput("severity", f"{ask.severity!r} is not one of {', '.join(SEVERITIES)}")
    if ask.verb is Verb.EXTEND:
        if ask.delay is None or not limits.WINDOW_MIN <= ask.delay <= limits.WINDOW_MAX:
            raise InvalidInput("visibilityWindow", "must be 1 second to 12 hours")
    elif ask.delay is not None and not 0 <= ask.delay <= limits.DELAY_MAX:
        raise InvalidInput("delay", f"must be 0 to {limits.DELAY_MAX // limits.SECOND} seconds")
    elif ask.delay is None and ask.verb is Verb.RESCHEDULE:
        raise InvalidInput("delay", "say when: reschedule needs a delay")
    proof = ackid.read(ask.ack_id)
    if ask.organization is not None and ask.organization != proof.organization:
        raise LeaseLost("this lease belongs to another organization")
    return Proved(ask, proof)


def _check_reason(reason: str) -> None:
    if topics.bytes_of(reason) > limits.REASON_BYTES:
        raise InvalidInput("reason", f"at most {limits.REASON_BYTES} bytes")
    if any(0xD800 <= ord(letter) < 0xE000 for letter in reason):
        raise InvalidInput("reason", "holds a lone surrogate, which is no text")


def first_needs(ask: Proved | Return) -> tuple[AnyKey, ...]:
    return (ask.key, TARGET.key(ask.key.target))


def decide(
    ask: Proved, known: Known, now: int, chance: Chance
) -> Plan[Settled] | Settled | Need | FairwayError:
    """What to commit, or the answer at once: a lost lease, or the holder's repeat."""
    try:
        return _decide(ask, known, now, chance)
    except Unknown as unknown:
        return Need(unknown.keys)


def _decide(
    ask: Proved, known: Known, now: int, chance: Chance
) -> Plan[Settled] | Settled | FairwayError:
    held = known.delivery(ask.key)
    if held is not None and held.generation != ask.proof.generation:
        held = known.delivery(replace(ask.key, generation=ask.proof.generation))
    if held is None:
        return _lost()
    if not _holder(ask.proof, held):
        return _confirmed_before(ask, held)
    if held.place is not Place.LEASED:
        return _repeat(ask.ask.verb, held)
    target = _target(held, known)
    if held.at <= now or target is None:
        return _lost()
    return Ending(held, ask.ask.verb, ask.ask, target, known, now, chance).plan()


def take_back(
    ask: Return, known: Known, now: int, chance: Chance
) -> Plan[Settled] | Settled | Need:
    """If it is still the same lease and, for a lapse, is over."""
    try:
        held = known.delivery(ask.key)
        if held is None or held.token != ask.leased.token or held.place is not Place.LEASED:
            return Settled(ask.leased.state, "not-leased")
        if held.at > now and ask.verb is Verb.LAPSE:
            return Settled(ask.leased.state, "not-lapsed")
        return Ending(held, ask.verb, None, _target(held, known), known, now, chance).plan()
    except Unknown as unknown:
        return Need(unknown.keys)


def _target(held: Delivery, known: Known) -> Target | None:
    """None: it was deleted, and the lease with it; perhaps there is another one of its name."""
    entry = known.entry(TARGET.key(held.target))
    target = TARGET.read(entry) if entry is not None else None
    if target is None or target.deleted is not None or held.lease is None:
        return None
    return target if target.id == held.lease.under else None


def _holder(proof: Proof, held: Delivery) -> bool:
    """The last holder, whatever happened since."""
    if held.lease is None:
        return False
    is_now = (held.generation, held.token, held.lease.claim)
    return (proof.generation, proof.token, proof.claim) == is_now


def _confirmed_before(ask: Proved, held: Delivery) -> Settled | FairwayError:
    """One of several who confirm repeats its ack, after others leased it: counted once."""
    proof = (ask.proof.token, ask.proof.claim)
    if ask.ask.verb is Verb.ACK and proof in held.memo.confirms:
        return Settled(held.state)
    return _lost()


def _repeat(verb: Verb, ended: Delivery) -> Settled | FairwayError:
    if ended.memo.verb == verb.value:
        return Settled(ended.state, replaced_by=ended.memo.successor)
    if ended.memo.verb is None or verb is Verb.EXTEND:
        return _lost()
    return AlreadySettled(
        f"this lease was settled by {ended.memo.verb}: the message is {ended.state.value} now"
    )


def _lost() -> LeaseLost:
    return LeaseLost(
        "the lease has ended or was never yours; nothing was changed. Receive the message again; "
        "ask for a longer visibilityWindow if the work takes longer"
    )


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
        self.successor = _successor(held, known)
        self.confirmed = self._with_this_consumer()

    def plan(self) -> Plan[Settled]:
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
        answer = Settled(moved.state, replaced_by=moved.memo.successor)
        return Plan(Change(tuple(puts), tuple(events), holds=self._decided_with()), answer)

    def _hold(self) -> Hold:
        if self.ask is not None:
            return Hold.RUNS
        return Hold.OVER if self.verb is Verb.LAPSE else Hold.ANY

    def _extended(self, row: Row) -> Plan[Settled]:
        """Never shorter than it was, never beyond 12 hours in all; counted, not logged."""
        asked = self.ask.delay if self.ask is not None else None
        until = min(self.now + (asked or 0), self.lease.since + limits.WINDOW_MAX)
        memo = replace(self.held.memo, **self._counted(row), pulse_at=self.now)
        longer = replace(
            self.held, version=self.held.version + 1, at=max(self.held.at, until), memo=memo
        )
        superseded = self.successor is not None
        answer = Settled(self.held.state, deadline_at=longer.at, superseded=superseded)
        change = Change((Put(longer, self.held, self._hold()),), (), holds=self._decided_with())
        return Plan(change, answer)

    def _decided_with(self) -> tuple[tuple[EntryKey, int], ...]:
        """The target, and the name that it took: what is known of them may be old."""
        keys = [TARGET.key(self.held.target)]
        if self.held.memo.name is not None:
            held = self.held
            keys.append(NAME.key(held.target, held.organization, self.held.memo.name))
        found = ((key, self.known.entry(key)) for key in keys)
        return tuple((key, entry.version if entry is not None else 0) for key, entry in found)

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


def _successor(held: Delivery, known: Known) -> str | None:
    """The id of what is newer than a leased delivery: parked behind it, or of its name."""
    if held.memo.parked is not None:
        return held.id
    if held.memo.name is None:
        return None
    entry = known.entry(NAME.key(held.target, held.organization, held.memo.name))
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
