"""Who gets the next deliveries: what to ask of the store, and what a grant becomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from fairway.core import fairness, limits, topics
from fairway.core.ackid import ack_id
from fairway.core.entries import TARGET, Target
from fairway.core.errors import ConsumerRequired, InvalidInput
from fairway.core.events import Event
from fairway.core.fairness import Four, Line, Policy, Portion, Waiting
from fairway.core.lifecycle import PLACES, Verb
from fairway.core.records import (
    Attempt,
    Claim,
    Delivery,
    Demand,
    Entry,
    Front,
    Grant,
    Lane,
    Lease,
    Message,
    Place,
    Stamp,
    State,
)
from fairway.core.settings import Settings
from fairway.core.settle import Return
from fairway.core.versions import with_attempt

PRIORITIES = (1, 2, 3, 4)
EVERY = "*"  # in a counter's name: all priorities together


class Receive(Struct, frozen=True, gc=False, kw_only=True):
    """What a consumer asks: up to `limit` messages, waiting at most `wait` for the first."""

    queue: str
    limit: int = 1
    wait: int = 0
    window: int | None = None
    consumer: str = ""
    service: str = "default"
    organization: str | None = None  # only its messages
    auto: bool = False  # acknowledged by the grant: at most once


class Held(Struct, frozen=True, gc=False, kw_only=True):
    """What a holder is given: the message, and the proof of its lease."""

    queue: str
    message: Message
    ack_id: str
    generation: int
    state: State
    priority: int
    token: int
    attempt: int
    retries: int
    requeues: int
    redelivered: bool
    available_at: int
    expires_at: int
    deadline_at: int
    window: int  # the span of the lease, as it was granted


def check(ask: Receive) -> Receive:
    topics.check_target(ask.queue)
    if not 1 <= ask.limit <= limits.RECEIVE_MESSAGES:
        raise InvalidInput("limit", f"must be 1 to {limits.RECEIVE_MESSAGES}")
    if not 0 <= ask.wait <= limits.WAIT_MAX:
        raise InvalidInput("wait", f"must be 0 to {limits.WAIT_MAX // limits.SECOND} seconds")
    if ask.window is not None and not limits.WINDOW_MIN <= ask.window <= limits.WINDOW_MAX:
        raise InvalidInput("visibilityWindow", "must be 1 second to 12 hours")
    if ask.consumer:
        topics.check_name("consumer", ask.consumer)
    if ask.organization:
        topics.check_name("organization", ask.organization)
    topics.check_name("service", ask.service)
    return ask


def check_with(ask: Receive, settings: Settings) -> None:
    """What only the queue's settings tell."""
    if settings.confirmations == 1:
        return
    if not ask.consumer:
        raise ConsumerRequired("consumer", "name it: this queue wants several to confirm")
    if ask.auto:
        raise InvalidInput("auto", "a queue that wants several to confirm has no auto-ack")


# --- planning


def policy(settings: Settings, service: str) -> Policy:
    return Policy(
        shares=settings.shares,
        min_active=settings.min_active,
        max_active=settings.active_limit(service),
        borrow=settings.borrow,
    )


def counters(target: str, service: str, priority: int) -> tuple[str, str]:
    """In which a lease counts: those of its priority, and those of all."""
    return f"{target}\n{service}\n{priority}", f"{target}\n{service}\n{EVERY}"


def active(target: str, service: str, told: Mapping[str, int]) -> Four:
    """How many leases of each priority the service holds, by the tally's counters."""
    one, two, three, four = (told.get(counters(target, service, p)[0], 0) for p in PRIORITIES)
    return one, two, three, four


def waiting(fronts: Sequence[Front], ask: Receive, now: int) -> list[Waiting]:
    """The organizations of a tally, in the order of the walk, with what is available for this
    consumer; perhaps nothing."""
    found: dict[tuple[int, str], Waiting] = {}
    for front in fronts:
        lane = front.lane
        at = (lane.turn, lane.organization)
        before = found.get(at, Waiting(lane.turn, lane.organization, 0, 0))
        takes = front.available_at is not None and front.available_at <= now and _may(ask, lane)
        found[at] = replace(
            before,
            available=before.available + (front.waiting if takes else 0),
            active=before.active + front.leased,
        )
    return list(found.values())


def _may(ask: Receive, lane: Lane) -> bool:
    if ask.organization is not None and ask.organization != lane.organization:
        return False
    return not lane.confirmed or ask.consumer not in lane.confirmed.split("\n")


def plan(
    ask: Receive,
    entry: Entry,
    target: Target,
    lines: Sequence[Line],
    fronts: Sequence[Front],
    told: Mapping[str, int],
    lease: Lease,
    chance: float,
) -> Claim:
    """The claim of one receive. A stale look takes too little, never too much: the store guards."""
    rules = policy(target.settings, ask.service)
    held = active(ask.queue, ask.service, told)
    portions = fairness.plan(ask.limit, rules, held, lines, chance)
    now = lease.since
    demands = [d for portion in portions for d in _demands(ask, portion, fronts, rules, now)]
    stamp = Stamp(
        lease=lease,
        now=now,
        deadline=now + lease.window,
        limit=sum(portion.amount for portion in portions),
        room=limits.RECEIVE_BYTES,
        full_at=_full_at(ask, rules),
        auto=ask.auto,
    )
    return Claim(tuple(demands), stamp, ((TARGET.key(ask.queue), entry.version),))


def _demands(
    ask: Receive, portion: Portion, fronts: Sequence[Front], rules: Policy, now: int
) -> list[Demand]:
    """One for each lane of the organization, in the order of those who stand first there."""
    priority = portion.priority
    caps: tuple[str, ...] = ()
    if rules.max_active is not None:
        of_priority, of_all = counters(ask.queue, ask.service, priority)
        caps = (of_all,) if portion.borrowed else (of_priority, of_all)
    mine = [
        front
        for front in fronts
        if (front.lane.priority, front.lane.organization) == (priority, portion.organization)
        and front.available_at is not None
        and front.available_at <= now
        and _may(ask, front.lane)
    ]
    mine.sort(key=lambda front: (front.available_at, front.lane.confirmed))
    return [Demand(ask.queue, front.lane, portion.amount, caps) for front in mine]


def _full_at(ask: Receive, rules: Policy) -> dict[str, int]:
    if rules.max_active is None:
        return {}
    most = fairness.caps(rules.max_active, rules.shares, rules.min_active)
    names = [counters(ask.queue, ask.service, p) for p in PRIORITIES]
    bounds = {of_priority: cap for (of_priority, _), cap in zip(names, most, strict=True)}
    return bounds | {names[0][1]: rules.max_active}


# --- granting


def grant(waits: Delivery, demand: Demand, stamp: Stamp) -> tuple[Delivery, list[Event]]:
    """What a claimed delivery becomes, and what the log says. The token outgrows the last one and the
    clock, so it also grows past a restored store and a lost tail."""
    leased = replace(
        waits,
        version=waits.version + 1,
        place=PLACES[State.LEASED],
        state=State.LEASED,
        at=stamp.deadline,
        token=max(waits.token + 1, stamp.now),
        counted=counters(demand.target, stamp.lease.service, waits.priority),
        lease=stamp.lease,
    )
    told = [_event(leased, stamp, "leased")]
    if not stamp.auto or waits.expires_at <= stamp.now:
        return leased, told
    memo = waits.memo
    attempt = Attempt(stamp.lease.consumer, stamp.now, stamp.now, "kicked")
    kicked = replace(
        leased,
        place=PLACES[State.KICKED],
        state=State.KICKED,
        at=stamp.now,
        counted=(),
        memo=replace(memo, deliveries=memo.deliveries + 1, attempts=with_attempt(memo, attempt)),
    )
    return kicked, [*told, replace(_event(kicked, stamp, "kicked"), deadline_at=None)]


def _event(granted: Delivery, stamp: Stamp, kind: str) -> Event:
    """`attempt` counts from 1."""
    attempt = granted.memo.deliveries + (granted.place is Place.LEASED)
    return Event(
        at=stamp.now, letter=granted.state, kind=kind, target=granted.target,
        organization=granted.organization, id=granted.id, generation=granted.generation,
        priority=granted.priority, token=granted.token, attempt=attempt,
        consumer=stamp.lease.consumer or None, service=stamp.lease.service,
        deadline_at=granted.at, send_id=granted.send,
    )  # fmt: skip


def vet(given: Grant, now: int) -> Held | Return:
    """What is handed out of a grant; what is over or expired already goes back at once."""
    delivery = given.delivery
    assert delivery.lease is not None
    if delivery.place is Place.LEASED and (delivery.at <= now or delivery.expires_at <= now):
        return Return(delivery, Verb.RELEASE)
    memo = delivery.memo
    return Held(
        queue=delivery.target,
        message=given.message,
        ack_id=ack_id(delivery),
        generation=delivery.generation,
        state=delivery.state,
        priority=delivery.priority,
        token=delivery.token,
        attempt=memo.deliveries + (delivery.place is Place.LEASED),
        retries=memo.retries,
        requeues=memo.requeues,
        redelivered=memo.redelivered,
        available_at=delivery.placed,
        expires_at=delivery.expires_at,
        deadline_at=delivery.lease.since + delivery.lease.window,
        window=delivery.lease.window,
    )
