"""What a person does to a delivery, and what time does to one that waits: cancel, change, expire."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from fairway.core.entries import Known, Need, Unknown
from fairway.core.errors import (
    Ended,
    FairwayError,
    InvalidInput,
    Leased,
    NotFound,
    NotPlaced,
)
from fairway.core.events import Event
from fairway.core.lifecycle import PLACES, Row, Verb, When, step
from fairway.core.plan import Chance, Plan
from fairway.core.records import AnyKey, Change, Delivery, Key, Parked, Place, Put, State
from fairway.core.send import PRIORITIES, check_span
from fairway.core.versions import end_parked, end_waiting

REFUSALS = {"leased": Leased, "ended": Ended}


class Operate(Struct, frozen=True, gc=False):
    """A verb on one message of a target: CANCEL, CHANGE, PURGE, DELETE or EXPIRE."""

    verb: Verb
    key: Key
    priority: int | None = None
    delay: int | None = None
    ttl: int | None = None


class Operated(Struct, frozen=True, gc=False):
    """The answer: where it is now."""

    state: State
    generation: int


def check(ask: Operate) -> Operate:
    if ask.verb is not Verb.CHANGE:
        return ask
    if ask.priority is None and ask.delay is None and ask.ttl is None:
        raise InvalidInput("body", "name what to change: priority, ttlMs or delayMs")
    if ask.priority is not None and ask.priority not in PRIORITIES.values():
        raise InvalidInput("priority", f"{ask.priority} is not 1 (urgent) to 4 (low)")
    if ask.delay is not None:
        check_span("delayMs", ask.delay, 0)
    if ask.ttl is not None:
        check_span("ttlMs", ask.ttl, 1)
    return ask


def first_needs(ask: Operate) -> tuple[AnyKey, ...]:
    return (ask.key,)


def decide(
    ask: Operate, known: Known, now: int, chance: Chance
) -> Plan[Operated] | Need | FairwayError:
    """What to commit, or why nothing is done."""
    try:
        found = known.delivery(ask.key)
    except Unknown as unknown:
        return Need(unknown.keys)
    if found is None:
        return NotFound(f"there is no message {ask.key.id} in {ask.key.target}")
    parked = found.memo.parked
    facts = {When.PARKED} if parked is not None else set[When]()
    row = step(ask.verb, found.place, facts)
    if row is None or (ask.verb is Verb.EXPIRE and found.expires_at > now):
        return Ended(f"{ask.verb.value} does nothing to {found.id}: it is {found.state.value}")
    if row.refuse is not None:
        return REFUSALS[row.refuse](f"{found.id} is {found.state.value}: {_advice(row.refuse)}")
    if ask.verb is Verb.CHANGE:
        return _changed(ask, found, now, chance)
    if found.place is Place.LEASED:
        assert parked is not None
        puts, events = end_parked(found, State.CANCELLED, row, now)
        return Plan(
            Change(tuple(puts), tuple(events)), Operated(State.CANCELLED, parked.generation)
        )
    if found.place is Place.WAITING:
        puts, events = end_waiting(found, row, now)
        assert row.to is not None
        return Plan(Change(tuple(puts), tuple(events)), Operated(row.to, found.generation))
    return _discarded(found, row, now)


def not_placed(ask: Operate) -> FairwayError:
    return NotPlaced(f"{ask.key.id} waits for the pipeline to place it in {ask.key.target}")


def _advice(refuse: str) -> str:
    return {
        "leased": "its holder works on it; wait until the lease ends",
        "ended": "it has come to rest",
    }[refuse]


def _changed(ask: Operate, found: Delivery, now: int, chance: Chance) -> Plan[Operated]:
    """Another priority or delay is another place in line; another ttl runs from availability."""
    parked = found.memo.parked
    if found.place is Place.LEASED:
        assert parked is not None
        other = replace(
            parked,
            priority=ask.priority or parked.priority,
            ttl=ask.ttl or parked.ttl,
            available_at=parked.available_at if ask.delay is None else now + ask.delay,
        )
        moved = replace(found, version=found.version + 1, memo=replace(found.memo, parked=other))
        return _told(found, moved, other, ask, now)
    available = found.at if ask.delay is None else now + ask.delay
    changed = replace(
        found,
        version=found.version + 1,
        priority=ask.priority or found.priority,
        at=available,
        expires_at=available + ask.ttl if ask.ttl is not None else found.expires_at,
    )
    if ask.delay is not None:
        changed = replace(changed, placed=available, sequence=chance.sequence)
    return _told(found, changed, changed, ask, now)


def _told(
    was: Delivery, moved: Delivery, version: Delivery | Parked, ask: Operate, now: int
) -> Plan[Operated]:
    available = version.available_at if isinstance(version, Parked) else version.at
    event = Event(
        at=now, letter=State.QUEUED if isinstance(version, Parked) else version.state,
        kind="changed", target=was.target, organization=was.organization, id=was.id,
        generation=version.generation, priority=version.priority, available_at=available,
        send_id=version.send,
    )  # fmt: skip
    answer = Operated(event_state(version), version.generation)
    return Plan(Change((Put(moved, was),), (event,)), answer)


def event_state(version: Delivery | Parked) -> State:
    return State.QUEUED if isinstance(version, Parked) else version.state


def _discarded(dead: Delivery, row: Row, now: int) -> Plan[Operated]:
    """A dead letter that nobody wants any more: to the history."""
    assert row.to is not None
    moved = replace(dead, version=dead.version + 1, place=PLACES[row.to], state=row.to, at=now)
    event = Event(
        at=now, letter=row.to, kind=row.event or "", target=dead.target,
        organization=dead.organization, id=dead.id, generation=dead.generation,
        priority=dead.priority, send_id=dead.send,
    )  # fmt: skip
    change = Change((Put(moved, dead, forgets=dead.send),), (event,))
    return Plan(change, Operated(row.to, dead.generation))
