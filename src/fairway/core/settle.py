"""What a holder answers, and what the system takes back: checked, and decided at once if it is lost."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from fairway.core import ackid, limits, topics
from fairway.core.ackid import Proof
from fairway.core.ending import Ending
from fairway.core.entries import TARGET, Known, Need, Target, Unknown
from fairway.core.errors import AlreadySettled, FairwayError, InvalidInput, LeaseLost
from fairway.core.lifecycle import Verb
from fairway.core.plan import Chance, Plan
from fairway.core.records import (
    AnyKey,
    Delivery,
    Key,
    Place,
    State,
)

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
    return _plan(Ending(held, ask.ask.verb, ask.ask, target, known, now, chance))


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
        return _plan(Ending(held, ask.verb, None, _target(held, known), known, now, chance))
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


def _plan(ending: Ending) -> Plan[Settled]:
    change, now = ending.change()
    if now.place is Place.LEASED:
        superseded = ending.successor is not None
        return Plan(change, Settled(now.state, deadline_at=now.at, superseded=superseded))
    return Plan(change, Settled(now.state, replaced_by=now.memo.successor))
