"""What an answer of the holder does: ack, nak, reject. And what the system does with a lapsed lease."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from fairway.core import ackid, limits, retry, topics
from fairway.core.ackid import Proof
from fairway.core.errors import AlreadySettled, FairwayError, InvalidInput, LeaseLost
from fairway.core.events import Event
from fairway.core.lifecycle import ENDS, PLACES, Ready, Row, Verb, When, step
from fairway.core.plan import Chance, Plan
from fairway.core.records import Change, Delivery, Key, Memo, Place, Put, State
from fairway.core.settings import Settings

SEVERITIES = ("error", "critical")


class Settle(Struct, frozen=True, gc=False):
    """What a holder answers, with the proof of its lease."""

    verb: Verb
    queue: str
    id: str
    ack_id: str
    reason: str | None = None
    code: str | None = None
    severity: str | None = None
    delay: int | None = None


class Proved(Struct, frozen=True, gc=False):
    """A settle that was checked, with what its ack id says."""

    ask: Settle
    proof: Proof

    @property
    def key(self) -> Key:
        return Key(self.ask.queue, self.proof.organization, self.ask.id)


class Lapse(Struct, frozen=True, gc=False):
    """A lease of which the system thinks that it is over."""

    leased: Delivery

    @property
    def key(self) -> Key:
        return self.leased.the_key


class Settled(Struct, frozen=True, gc=False):
    """The answer to a settle: where the delivery is now."""

    state: State
    outcome: str = "ok"


def prove(ask: Settle) -> Proved:
    """The settle with its proof, or the error that names the field."""
    if ask.reason is not None and len(ask.reason.encode(errors="replace")) > limits.REASON_BYTES:
        raise InvalidInput("reason", f"at most {limits.REASON_BYTES} bytes")
    if ask.code is not None:
        topics.check_name("code", ask.code)
    if ask.severity is not None and ask.severity not in SEVERITIES:
        raise InvalidInput("severity", f"{ask.severity!r} is not one of {', '.join(SEVERITIES)}")
    if ask.delay is not None and not 0 <= ask.delay <= limits.DELAY_MAX:
        raise InvalidInput("delay", f"must be 0 to {limits.DELAY_MAX // limits.SECOND} seconds")
    return Proved(ask, ackid.read(ask.ack_id))


def decide(
    ask: Proved, known: Mapping[Key, Delivery | None], rules: Settings, now: int, chance: Chance
) -> Plan[Settled] | Settled | FairwayError:
    """What to commit, or the answer at once: a lost lease, or the holder's repeat."""
    held = known.get(ask.key)
    if held is None or not _holder(ask.proof, held):
        return _lost()
    if held.place is not Place.LEASED:
        return _repeat(ask.ask.verb, held)
    if held.at <= now:
        return _lost()
    row = step(ask.ask.verb, held.place, _facts(held, rules))
    assert row is not None
    return _plan(held, row, ask.ask, rules, now, chance)


def lapse(
    ask: Lapse, known: Mapping[Key, Delivery | None], rules: Settings, now: int, chance: Chance
) -> Plan[Settled] | Settled:
    """As a nak by the system, if it is still the same lease and is over."""
    held = known.get(ask.key)
    if (
        held is None
        or held.token != ask.leased.token
        or held.place is not Place.LEASED
        or held.at > now
    ):
        return Settled(ask.leased.state, "not-lapsed")
    row = step(Verb.LAPSE, held.place, _facts(held, rules))
    assert row is not None
    return _plan(held, row, None, rules, now, chance)


def _holder(proof: Proof, held: Delivery) -> bool:
    """The last holder, whatever happened since."""
    if held.lease is None:
        return False
    is_now = (held.generation, held.token, held.lease.claim)
    return (proof.generation, proof.token, proof.claim) == is_now


def _repeat(verb: Verb, ended: Delivery) -> Settled | FairwayError:
    if ended.state in ENDS[verb]:
        return Settled(ended.state)
    return AlreadySettled(
        f"this lease was settled by another verb: the message is {ended.state} now"
    )


def _lost() -> LeaseLost:
    return LeaseLost(
        "the lease has ended or was never yours; nothing was changed. Receive the message again, "
        "or extend leases in time"
    )


def _facts(held: Delivery, rules: Settings) -> set[When]:
    return {When.LAST} if held.memo.retries >= rules.max_retries else set()


def _plan(
    held: Delivery, row: Row, ask: Settle | None, rules: Settings, now: int, chance: Chance
) -> Plan[Settled]:
    moved = _moved(held, row, ask, rules, now, chance)
    put = Put(moved, held, lapsed=row.verb is Verb.LAPSE)
    return Plan(Change((put,), (_event(held, moved, row, ask, now),)), Settled(moved.state))


def _moved(
    held: Delivery, row: Row, ask: Settle | None, rules: Settings, now: int, chance: Chance
) -> Delivery:
    assert row.to is not None
    goes_back = row.ready is not Ready.NEVER
    at = now + _wait(held, row, ask, rules, chance)
    return replace(
        held,
        place=PLACES[row.to],
        state=row.to,
        placed=at if goes_back else held.placed,
        sequence=chance.sequence if goes_back else held.sequence,
        at=at,
        # After a lapse the late holder's proof must fail; after a settle it must be known again.
        token=held.token + (row.verb is Verb.LAPSE),
        memo=_memo(held.memo, row, ask, goes_back),
    )


def _wait(held: Delivery, row: Row, ask: Settle | None, rules: Settings, chance: Chance) -> int:
    if row.ready is not Ready.BACKOFF:
        return 0
    if ask is not None and ask.delay is not None:
        return ask.delay
    return retry.delay(rules.backoff, held.memo.retries, chance.draw)


def _memo(memo: Memo, row: Row, ask: Settle | None, goes_back: bool) -> Memo:
    """The counters of the table's row, and why, as far as anyone said."""
    return Memo(
        deliveries=memo.deliveries + 1,
        retries=memo.retries + ("retries" in row.add),
        errors=memo.errors + ("errors" in row.add),
        redelivered=memo.redelivered or goes_back,
        reason=row.reason,
        text=ask.reason if ask else None,
        code=ask.code if ask else None,
        severity=(ask.severity or "error") if ask and row.to is State.REJECTED else None,
    )


def _event(held: Delivery, moved: Delivery, row: Row, ask: Settle | None, now: int) -> Event:
    lease = held.lease
    assert lease is not None
    goes_back = row.ready is not Ready.NEVER
    return Event(
        at=now,
        letter=moved.state,
        kind=row.event,
        target=held.target,
        organization=held.organization,
        id=held.id,
        generation=held.generation,
        priority=held.priority,
        token=held.token,
        attempt=moved.memo.deliveries,
        consumer=lease.consumer or None,
        service=lease.service,
        reason=moved.memo.reason or moved.memo.text,
        code=moved.memo.code,
        available_at=moved.at if goes_back else None,
        send_id=held.send,
    )
