"""Why is a message not delivered yet? What stands in its way, most decisive first.

It is asked for one consumer of one service, as a receive is: caps are counted for each service, and
nobody gets what it has confirmed. Every cause has a code that stays, the rule in one sentence, and
the facts that make the rule hold here. Instants are µs; INSTANTS names those facts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from fairway.core import claim, fairness
from fairway.core.claim import PRIORITIES
from fairway.core.entries import Pending, Target
from fairway.core.fairness import Policy
from fairway.core.limits import SECOND
from fairway.core.records import Delivery, Parked, Place, State

EXACT: Final = 10_000  # a place in line behind more than these is only said to be behind so many
LATELY: Final = 60 * SECOND  # without a receive, after which nobody seems to consume the queue

INSTANTS: Final = frozenset({"since", "until"})
RULES: Final = {
    "not-found": "There is no such message here: never sent here, or removed by retention.",
    "not-placed": "This queue leaves placing to the pipeline, which has not placed it yet.",
    "ended": "It came to rest in the history and is not delivered again.",
    "dead-letter": "It was given up and rests among the dead letters until a person recovers it.",
    "parked": "A newer version waits until the lease of the older one ends, whatever way.",
    "leased": "It was delivered: until the deadline it belongs to its holder alone.",
    "lapsed": "Its lease is over, and the next sweep, at most a second away, takes it back.",
    "target-deleted": "The queue was deleted by force: nothing is given out of it any more.",
    "expired": "Its own time is over: the next sweep makes it a dead letter.",
    "paused": "The queue is paused: it accepts messages and gives none out until it is resumed.",
    "delayed": "It is not available before the instant that was asked for.",
    "back-off": "After a failed delivery it waits before it is tried again.",
    "redelivery-delay": "It was requeued, and waits before it is delivered again.",
    "rescheduled": "Its consumer put it off to a later instant.",
    "consumer-required": "The queue wants several to confirm, so who receives must say its name.",
    "already-confirmed": "This consumer has confirmed it; what is missing is the word of others.",
    "waits-for-others": "Some have confirmed it; it waits for as many more as the queue wants.",
    "max-active": "The service holds as many leases of this queue as it may.",
    "priority-cap": "The service holds as many leases of this priority as its share allows.",
    "behind": "Within an organization and priority the first in line is delivered first.",
    "other-organizations": "The organizations that wait in a priority are served in turn.",
    "other-priorities": "Each receive is drawn among the priorities that wait, by their shares.",
    "no-consumer": "Nobody has asked this queue for messages lately.",
    "ready": "Nothing stands in its way: the next receive may get it.",
}


class Cause(Struct, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True):
    """One rule that keeps it from being delivered, and its facts; those left out do not matter."""

    code: str
    rule: str
    generation: int | None = None
    state: State | None = None
    since: int | None = None
    until: int | None = None  # when it ends by itself
    holder: str | None = None
    service: str | None = None
    token: int | None = None
    reason: str | None = None
    text: str | None = None  # the reason in the application's own words
    error_code: str | None = None
    severity: str | None = None
    successor: str | None = None
    copied_as: str | None = None
    retries: int | None = None
    limit: int | None = None
    active: int | None = None
    priority: int | None = None
    share: int | None = None
    place: int | None = None  # how many stand before it …
    exact: bool = True  # … or at least so many
    organizations: int | None = None  # others that wait in its priority
    priorities: dict[int, int] | None = None  # the others that wait, and their shares
    confirmed_by: list[str] | None = None
    missing: int | None = None  # confirmations


class Others(Struct, frozen=True, gc=False, kw_only=True):
    """Who else wants the next receive, by the tallies and a count of the line."""

    before: int = 0  # what `place_in_line` says
    organizations: int = 0  # that wait in the priority, its own included
    priorities: tuple[int, ...] = ()  # in which something waits, its own included


class Looked(Struct, frozen=True, gc=False, kw_only=True):
    """All that an engine looked up of one message in one target."""

    now: int
    target: str
    rules: Target | None  # None: there is no such queue
    delivery: Delivery | None  # the newest, or None
    pending: Pending | None = None
    counters: Mapping[str, int] = {}
    others: Others = Others()
    asked_at: int | None = None  # the last receive; None: not known
    consumer: str = ""
    service: str = "default"


def explain(looked: Looked) -> list[Cause]:
    """Never empty; only what is ready, or delivered already, has a single cause."""
    delivery = looked.delivery
    if delivery is None:
        return [_not_placed(looked.pending) if looked.pending else _cause("not-found")]
    if delivery.place is Place.HISTORY:
        return [_ended(delivery)]
    if delivery.place is Place.DEAD:
        return [_dead(delivery)]
    if delivery.place is Place.LEASED:
        return [*_held(delivery, looked), *_closed(looked)]
    found = [cause for rule in _WAITING for cause in rule(delivery, looked)]
    return found or [_cause("ready", since=delivery.at)]


def place_in_line(delivery: Delivery, others: Iterable[Delivery], consumer: str = "") -> int:
    """How many of those that wait stand before it in its line; what this consumer has confirmed is
    not in its line. Counts no further than one beyond EXACT."""
    before = 0
    for other in others:
        before += _line(other) == _line(delivery) and _is_before(other, delivery, consumer)
        if before > EXACT:
            break
    return before


def _line(delivery: Delivery) -> tuple[str, int, str]:
    return delivery.target, delivery.priority, delivery.organization


def _is_before(other: Delivery, delivery: Delivery, consumer: str) -> bool:
    if consumer and consumer in _confirmers(other):
        return False
    mine = (delivery.placed, delivery.sequence, delivery.id)
    return (other.placed, other.sequence, other.id) < mine


def _cause(code: str, **facts: Any) -> Cause:
    return Cause(code=code, rule=RULES[code], **facts)


# --- what is not in line at all


def _not_placed(pending: Pending) -> Cause:
    return _cause("not-placed", state=State.LOGGED, priority=pending.priority)


def _ended(delivery: Delivery) -> Cause:
    memo = delivery.memo
    return _cause(
        "ended", generation=delivery.generation, state=delivery.state, since=delivery.at,
        reason=memo.reason, text=memo.text, successor=memo.successor,
        holder=_last_consumer(delivery),
    )  # fmt: skip


def _dead(delivery: Delivery) -> Cause:
    memo = delivery.memo
    return _cause(
        "dead-letter", generation=delivery.generation, state=delivery.state, since=delivery.at,
        reason=memo.reason, text=memo.text, error_code=memo.code, severity=memo.severity,
        retries=memo.retries, copied_as=memo.copied_as, holder=_last_consumer(delivery),
    )  # fmt: skip


def _last_consumer(delivery: Delivery) -> str | None:
    attempts = delivery.memo.attempts
    return (attempts[-1].consumer or None) if attempts else None


# --- what somebody holds


def _held(delivery: Delivery, looked: Looked) -> Iterator[Cause]:
    lease, memo = delivery.lease, delivery.memo
    assert lease is not None
    holder, until = lease.consumer or None, delivery.at
    if memo.parked is not None:
        yield _cause(
            "parked", generation=memo.parked.generation, holder=holder, service=lease.service,
            since=lease.since, until=until,
        )  # fmt: skip
        yield from _parked_for_later(memo.parked, looked.now)
    code = "lapsed" if until <= looked.now else "leased"
    yield _cause(
        code, generation=delivery.generation, holder=holder, service=lease.service,
        since=lease.since, until=until, token=delivery.token, retries=memo.retries,
    )  # fmt: skip


def _parked_for_later(parked: Parked, now: int) -> Iterator[Cause]:
    if parked.available_at > now:
        yield _cause("delayed", generation=parked.generation, until=parked.available_at)


def _closed(looked: Looked) -> Iterator[Cause]:
    """The target gives nothing out, to nobody."""
    target = looked.rules
    if target is None or target.deleted is not None:
        yield _cause("target-deleted", since=target.deleted if target else None)
    elif target.paused:
        yield _cause("paused")


# --- what waits


def _is_closed(delivery: Delivery, looked: Looked) -> Iterator[Cause]:
    yield from _closed(looked)


def _is_expired(delivery: Delivery, looked: Looked) -> Iterator[Cause]:
    if delivery.expires_at <= looked.now:
        yield _cause("expired", since=delivery.expires_at)


def _is_for_later(delivery: Delivery, looked: Looked) -> Iterator[Cause]:
    if max(delivery.at, delivery.placed) <= looked.now:
        return
    memo = delivery.memo
    yield _cause(
        _why_later(delivery), until=max(delivery.at, delivery.placed), reason=memo.reason,
        text=memo.text, retries=memo.retries or None, limit=_retry_limit(delivery, looked),
    )  # fmt: skip


def _why_later(delivery: Delivery) -> str:
    memo = delivery.memo
    if delivery.state is not State.RETRY:
        return "delayed"
    if memo.reason == "lease-lapsed":
        return "back-off"
    return {"requeue": "redelivery-delay", "reschedule": "rescheduled"}.get(
        memo.verb or "", "back-off"
    )


def _retry_limit(delivery: Delivery, looked: Looked) -> int | None:
    if looked.rules is None or _why_later(delivery) != "back-off":
        return None
    return looked.rules.settings.max_retries


def _wants_consumers(delivery: Delivery, looked: Looked) -> Iterator[Cause]:
    names = _confirmers(delivery)
    facts = {"confirmed_by": names, "missing": delivery.memo.confirmations - len(names)}
    if looked.consumer and looked.consumer in names:
        yield _cause("already-confirmed", **facts)
    if looked.consumer:
        return
    if names:
        yield _cause("waits-for-others", **facts)
    wanted = looked.rules.settings.confirmations if looked.rules else 1
    if wanted > 1:
        yield _cause("consumer-required", limit=wanted)


def _confirmers(delivery: Delivery) -> list[str]:
    return delivery.confirmed.split("\n") if delivery.confirmed else []


def _is_capped(delivery: Delivery, looked: Looked) -> Iterator[Cause]:
    rules = _policy(looked)
    if rules is None or rules.max_active is None:
        return
    held = claim.active(looked.target, looked.service, looked.counters)
    if sum(held) >= rules.max_active:
        yield _cause("max-active", service=looked.service, active=sum(held), limit=rules.max_active)
    at = PRIORITIES.index(delivery.priority)
    cap = fairness.caps(rules.max_active, rules.shares, rules.min_active)[at]
    # What is borrowed is not bound by the share of its priority.
    if held[at] >= cap and not rules.borrow:
        yield _cause(
            "priority-cap", service=looked.service, priority=delivery.priority,
            share=rules.shares[at], active=held[at], limit=cap,
        )  # fmt: skip


def _policy(looked: Looked) -> Policy | None:
    return claim.policy(looked.rules.settings, looked.service) if looked.rules else None


def _is_behind(delivery: Delivery, looked: Looked) -> Iterator[Cause]:
    before = looked.others.before
    if before:
        yield _cause("behind", place=min(before, EXACT), exact=before <= EXACT)


def _has_company(delivery: Delivery, looked: Looked) -> Iterator[Cause]:
    """Others whose turn may come first. It is never far away: no one of them starves another."""
    rules, others = _policy(looked), looked.others
    if others.organizations > 1:
        yield _cause(
            "other-organizations", priority=delivery.priority,
            organizations=others.organizations - 1,
        )  # fmt: skip
    if rules is None:
        return
    mine = delivery.priority
    competing = {p: rules.shares[PRIORITIES.index(p)] for p in others.priorities if p != mine}
    if competing:
        share = rules.shares[PRIORITIES.index(mine)]
        yield _cause("other-priorities", priority=mine, share=share, priorities=competing)


def _is_not_asked_for(delivery: Delivery, looked: Looked) -> Iterator[Cause]:
    asked = looked.asked_at
    if asked is not None and looked.now - asked >= LATELY:
        yield _cause("no-consumer", since=asked)


_WAITING: Final[Sequence[Callable[[Delivery, Looked], Iterator[Cause]]]] = (
    _is_closed,
    _is_expired,
    _is_for_later,
    _wants_consumers,
    _is_capped,
    _is_behind,
    _has_company,
    _is_not_asked_for,
)
