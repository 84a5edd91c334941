"""What becomes of a version that waits, or that is parked behind a lease."""

from __future__ import annotations

from msgspec.structs import replace

from fairway.core import limits
from fairway.core.events import Event
from fairway.core.lifecycle import BODILESS, PLACES, Row
from fairway.core.records import Attempt, Delivery, Memo, Parked, Place, Put, State


def end_waiting(
    waiting: Delivery, row: Row, now: int, successor: str | None = None, cause: str | None = None
) -> tuple[list[Put], list[Event]]:
    """A delivery that waits comes to rest."""
    assert row.to is not None
    reason = row.reason
    ended = replace(
        waiting, version=waiting.version + 1, place=PLACES[row.to], state=row.to, at=now,
        memo=replace(waiting.memo, successor=successor, reason=reason),
    )  # fmt: skip
    event = Event(
        at=now, letter=row.to, kind=row.event or "", target=waiting.target,
        organization=waiting.organization, id=waiting.id, generation=waiting.generation,
        priority=waiting.priority, reason=reason, cause=cause, send_id=waiting.send,
    )  # fmt: skip
    forgets = waiting.send if row.to in BODILESS else None
    return [Put(ended, waiting, forgets=forgets)], [event]


def end_parked(
    leased: Delivery,
    to: State,
    row: Row,
    now: int,
    successor: str | None = None,
    cause: str | None = None,
) -> tuple[list[Put], list[Event]]:
    """What is parked behind a lease comes to rest; the lease is not touched."""
    parked = leased.memo.parked
    assert parked is not None
    highest = max(leased.memo.highest, parked.generation)
    told = replace(leased.memo, parked=None, highest=highest)
    ended = replace(
        unparked(leased, parked, now, 0), place=PLACES[to], state=to, at=now,
        memo=Memo(name=parked.name, successor=successor, reason=row.reason),
    )  # fmt: skip
    event = Event(
        at=now, letter=to, kind=row.event or "", target=leased.target,
        organization=leased.organization, id=leased.id, generation=parked.generation,
        priority=parked.priority, reason=row.reason, cause=cause, send_id=parked.send,
    )  # fmt: skip
    puts = [
        Put(replace(leased, version=leased.version + 1, memo=told), leased),
        Put(ended, beside=True, forgets=parked.send if to in BODILESS else None),
    ]
    return puts, [event]


def with_attempt(memo: Memo, ended: Attempt) -> tuple[Attempt, ...]:
    """The first, those that confirmed, and the last ones."""
    known = (*memo.attempts, ended)
    if len(known) <= limits.ATTEMPTS:
        return known
    spare = (n for n in range(1, len(known) - 1) if known[n].outcome != "confirmed")
    dropped = next(spare, 1)
    return (*known[:dropped], *known[dropped + 1 :])


def unparked(leased: Delivery, parked: Parked, now: int, sequence: int) -> Delivery:
    """What a parked version becomes when its time has come."""
    available = max(now, parked.available_at)
    # Something may rest beside it under a later number, which is not given again.
    highest = leased.memo.highest if leased.memo.highest > parked.generation else 0
    memo = Memo(name=parked.name, confirmations=parked.confirmations, highest=highest)
    return Delivery(
        target=leased.target, organization=leased.organization, id=leased.id,
        generation=parked.generation, place=Place.WAITING, state=State.QUEUED,
        priority=parked.priority, turn=leased.turn, placed=available, sequence=sequence,
        at=available,
        expires_at=available + parked.ttl, send=parked.send, size=parked.size,
        fingerprint=parked.fingerprint, memo=memo,
    )  # fmt: skip
