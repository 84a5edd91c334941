"""Who gets the next deliveries: what to ask of the store, and what a grant becomes."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from fairway.core import limits, topics
from fairway.core.ackid import ack_id
from fairway.core.errors import InvalidInput
from fairway.core.events import Event
from fairway.core.lifecycle import PLACES
from fairway.core.records import Claim, Delivery, Demand, Front, Grant, Lease, Message, Stamp, State


class Receive(Struct, frozen=True, gc=False, kw_only=True):
    """What a consumer asks: up to `limit` messages of a queue, waiting at most `wait` for the first."""

    queue: str
    limit: int = 1
    wait: int = 0
    window: int | None = None
    consumer: str = ""
    service: str = "default"


class Held(Struct, frozen=True, gc=False, kw_only=True):
    """What a holder is given: the message, and the proof of its lease."""

    queue: str
    message: Message
    ack_id: str
    generation: int
    priority: int
    token: int
    attempt: int
    retries: int
    redelivered: bool
    available_at: int
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
    topics.check_name("service", ask.service)
    return ask


def plan(target: str, fronts: Sequence[Front], lease: Lease, limit: int, now: int) -> Claim:
    """Lanes in order of priority. A stale look at them may take too little, never too much."""
    lanes = sorted(front.lane for front in fronts if front.available_at <= now)
    demands = tuple(Demand(target, lane, limit) for lane in lanes)
    return Claim(demands, Stamp(lease, now, now + lease.window, limit, limits.RECEIVE_BYTES))


def vet(grant: Grant) -> Held:
    """What is handed out of a grant."""
    delivery = grant.delivery
    assert delivery.lease is not None
    return Held(
        queue=delivery.target,
        message=grant.message,
        ack_id=ack_id(delivery),
        generation=delivery.generation,
        priority=delivery.priority,
        token=delivery.token,
        attempt=delivery.memo.deliveries + 1,
        retries=delivery.memo.retries,
        redelivered=delivery.memo.redelivered,
        available_at=delivery.placed,
        deadline_at=delivery.at,
        window=delivery.at - delivery.lease.since,
    )


def leased(waiting: Delivery, stamp: Stamp) -> Delivery:
    """What a granted delivery becomes. The token outgrows the last one and the clock, so it also
    grows past a restored store and a lost tail."""
    return replace(
        waiting,
        place=PLACES[State.LEASED],
        state=State.LEASED,
        at=stamp.deadline,
        token=max(waiting.token + 1, stamp.now),
        lease=stamp.lease,
    )


def event(granted: Delivery, stamp: Stamp) -> Event:
    """What the log says of a grant. `attempt` counts from 1."""
    return Event(
        at=stamp.now, letter=granted.state, kind="leased", target=granted.target,
        organization=granted.organization, id=granted.id, generation=granted.generation,
        priority=granted.priority, token=granted.token, attempt=granted.memo.deliveries + 1,
        consumer=stamp.lease.consumer or None, service=stamp.lease.service,
        deadline_at=granted.at, send_id=granted.send,
    )  # fmt: skip
