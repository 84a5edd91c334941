"""The document view: one message as a person knows it, made of all its deliveries.

A message is the newest send of an id. Its queue deliveries together are its state; its channels
stand beside and are not counted, and older sends of the id are listed. Instants and spans are µs
here as everywhere inside (INSTANTS and SPANS name them for whoever shows them); only what the
document itself names in another unit has that unit: `fetchedTS`, `confirmedTS`, `durationMS`.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Raw, Struct, field, json
from msgspec.structs import replace

from fairway.core import topics
from fairway.core.lifecycle import PLACES
from fairway.core.limits import MS, SECOND
from fairway.core.records import Attempt, Delivery, Key, Message, Place, State
from fairway.core.versions import unparked

STATE_SHOWN: Final = tuple(map(State, "IELQRSFNCOUKX"))  # of several deliveries, the first of these
SUCCESSES: Final = frozenset({"confirmed", "completed"})  # how an attempt ends that was confirmed …
FAILURES: Final = frozenset({"rejected", "declined"})  # … or answered for good
EARLIER: Final = 20  # older versions of a target that are looked up
NULL: Final = Raw(b"null")

INSTANTS: Final = frozenset(
    {"created", "modified", "consumedAt", "processed", "completed", "failed"}
)
SPANS: Final = frozenset({"wait", "queueWait", "total"})


class Flags(Struct, frozen=True, gc=False):
    """What a state means to a reader who knows no letters."""

    queued: bool = False
    delivered: bool = False
    success: bool = False
    archived: bool = False


_ANSWERED = Flags(delivered=True, archived=True)
_UNDELIVERED = Flags(archived=True)
FLAGS: Final = {
    State.LOGGED: Flags(),
    State.QUEUED: Flags(queued=True),
    State.RETRY: Flags(queued=True),
    State.LEASED: Flags(),
    State.PARTLY: Flags(queued=True, delivered=True),
    State.COMPLETED: Flags(delivered=True, success=True, archived=True),
    State.KICKED: _ANSWERED,
    State.DECLINED: _ANSWERED,
    State.REJECTED: _ANSWERED,
    State.UNCHANGED: _UNDELIVERED,
    State.EXHAUSTED: _UNDELIVERED,
    State.OBSOLETE: _UNDELIVERED,
    State.CANCELLED: _UNDELIVERED,
}


class Consumed(Struct, frozen=True, gc=False, rename="camel"):
    """One consumer of one delivery: the lease that it answered for good, else its last one."""

    consumer_id: str | None
    fetched_ts: str = field(name="fetchedTS")
    confirmed_ts: str | None = field(name="confirmedTS")
    duration_ms: int | None = field(name="durationMS")


class Channel(Struct, frozen=True, gc=False, rename="camel"):
    """The message in one subscriber's own stream."""

    target: str
    generation: int
    state: State
    lifecycle: str | None


class Earlier(Struct, frozen=True, gc=False, rename="camel"):
    """An older send of the same id; its state, as far as its deliveries are still there."""

    send_id: str
    created: int
    topics: list[str]
    state: State | None


class Document(Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """Every key is always there; null where it is not so yet."""

    id: str
    organization: str
    message: Raw  # null where `messageBase64` stands for it, or the body is gone
    message_base64: str | None
    timestamp: str | None
    mime_type: str
    topics: list[str]
    topic: list[str]
    object: str | None
    key: str | None
    state: State | None
    lifecycle: str | None
    queued: bool
    delivered: bool
    success: bool
    archived: bool
    confirmed: bool
    topic_count: int
    confirmed_count: int
    created: int
    modified: int
    consumed: list[Consumed]
    consumed_at: int | None
    processed: int | None
    completed: int | None
    failed: int | None
    wait: int | None
    queue_wait: int | None
    total: int | None
    channels: list[Channel]
    earlier: list[Earlier]


def view(
    message: Message,
    deliveries: Iterable[Delivery],
    earlier: Iterable[Message] = (),
    logged: Sequence[str] = (),
) -> Document:
    """`deliveries`: what `versions` made of all that was found, of this send and of older ones;
    `logged`: the queues that left this send to the pipeline and where it is not placed yet."""
    found = list(deliveries)
    mine = [one for one in found if one.send == message.send]
    queues = _in_order_of_topics([d for d in mine if not topics.is_channel(d.target)], message)
    state = _shown(queues, logged)
    flags = FLAGS[state] if state else Flags()
    body, base64 = shown_body(message)
    consumed_at, processed = _first_lease(queues), _first_answer(queues)
    completed = _completed(queues, logged)
    return Document(
        id=message.id, organization=message.organization, message=body, message_base64=base64,
        timestamp=message.timestamp, mime_type=message.mime_type,
        topics=message.topics, topic=message.topics, object=message.object, key=message.key,
        state=state, lifecycle=lifecycle(state) if state else None,
        queued=flags.queued, delivered=flags.delivered, success=flags.success,
        archived=flags.archived, confirmed=flags.success,
        topic_count=len(message.topics), confirmed_count=_confirmed_topics(message, queues),
        created=message.created, modified=_modified(message, queues),
        consumed=[entry for delivery in queues for entry in _consumed(delivery)],
        consumed_at=consumed_at, processed=processed, completed=completed, failed=_failed(queues),
        wait=_span(consumed_at, processed), queue_wait=_queue_wait(message, queues),
        total=_span(message.created, completed),
        channels=[_beside(d) for d in mine if topics.is_channel(d.target)],
        earlier=[_older(old, found) for old in newest_first(earlier, found)],
    )  # fmt: skip


def lifecycle(state: State) -> str | None:
    """The second document's name of a state; it has none for what is only logged."""
    if state is State.LOGGED:
        return None
    if state is State.RETRY:
        return "Rescheduled"
    names = {Place.LEASED: "Leased", Place.HISTORY: "History", Place.DEAD: "Dead-Letter"}
    return names.get(PLACES[state], "Queued")


# --- what is to be looked up first


def older_versions(found: Iterable[Delivery]) -> list[Key]:
    """Of the newest delivery in each target: the keys of its other versions, some perhaps gone."""
    keys: list[Key] = []
    for newest in found:
        memo = newest.memo
        parked = memo.parked.generation if memo.parked else 0
        last = max(newest.generation, memo.highest, parked)
        keys += [
            replace(newest.the_key, generation=generation)
            for generation in range(last, max(last - EARLIER, 0), -1)
            if generation != newest.generation
        ]
    return keys


def versions(found: Iterable[Delivery]) -> list[Delivery]:
    """… with what is parked behind a lease as the delivery that it will be."""
    every: list[Delivery] = []
    for one in found:
        every.append(one)
        parked = one.memo.parked
        if parked is not None:
            every.append(unparked(one, parked, parked.available_at, 0))
    return every


def newest_first(messages: Iterable[Message], found: Iterable[Delivery]) -> list[Message]:
    """The first is the message, the others are its earlier sends. Those of one call may have the
    same instant; what they made, `found`, tells their order."""
    generations: dict[str, int] = {}
    for delivery in found:
        generations[delivery.send] = max(generations.get(delivery.send, 0), delivery.generation)

    def age(message: Message) -> tuple[int, int, str]:
        return message.created, generations.get(message.send, 0), message.send

    return sorted(messages, key=age, reverse=True)


# --- what is shown of it


def shown_body(message: Message) -> tuple[Raw, str | None]:
    """JSON that was checked as it is, text as a string, anything else in base64."""
    body = message.body
    if body is None:
        return NULL, None
    if message.json:
        return Raw(body), None
    if message.mime_type.startswith("text/"):
        try:
            return Raw(json.encode(body.decode())), None
        except UnicodeDecodeError:
            pass
    return NULL, b64encode(body).decode()


def _in_order_of_topics(queues: Iterable[Delivery], message: Message) -> list[Delivery]:
    order = {queue: at for at, queue in enumerate(topics.roots(message.topics))}
    return sorted(queues, key=lambda d: (order.get(d.target, len(order)), d.generation))


def _shown(queues: Sequence[Delivery], logged: Sequence[str]) -> State | None:
    states = {delivery.state for delivery in queues}
    if logged:
        states.add(State.LOGGED)
    return next((state for state in STATE_SHOWN if state in states), None)


def _confirmed_topics(message: Message, queues: Iterable[Delivery]) -> int:
    """Comparable with the count of topics: all are, once every queue's consumers confirmed."""
    completed = {d.target for d in queues if d.state is State.COMPLETED}
    return sum(topics.root(topic) in completed for topic in message.topics)


def _beside(delivery: Delivery) -> Channel:
    state = delivery.state
    return Channel(delivery.target, delivery.generation, state, lifecycle(state))


def _older(message: Message, found: Iterable[Delivery]) -> Earlier:
    queues = [d for d in found if d.send == message.send and not topics.is_channel(d.target)]
    return Earlier(message.send, message.created, message.topics, _shown(queues, ()))


# --- who consumed it


def _leases(delivery: Delivery) -> list[Attempt]:
    """All that are remembered, the running one last. One that was released never began."""
    attempts = list(delivery.memo.attempts)
    if delivery.place is Place.LEASED and delivery.lease is not None:
        lease = delivery.lease
        attempts.append(Attempt(lease.consumer, lease.since, delivery.at, ""))
    return attempts


def _is_answer(attempt: Attempt) -> bool:
    return attempt.outcome in SUCCESSES or attempt.outcome in FAILURES


def _consumed(delivery: Delivery) -> list[Consumed]:
    shown: dict[str, Attempt] = {}  # keeps the order of each consumer's first lease
    for attempt in _leases(delivery):
        if attempt.consumer not in shown or not _is_answer(shown[attempt.consumer]):
            shown[attempt.consumer] = attempt
    return [_entry(attempt) for attempt in shown.values()]


def _entry(attempt: Attempt) -> Consumed:
    consumer, fetched = attempt.consumer or None, compact(attempt.since)
    if not _is_answer(attempt):
        return Consumed(consumer, fetched, None, None)
    duration = (attempt.until - attempt.since) // MS
    return Consumed(consumer, fetched, compact(attempt.until), duration)


# --- when


def _first_lease(queues: Iterable[Delivery]) -> int | None:
    return min((lease.since for d in queues for lease in _leases(d)), default=None)


def _first_answer(queues: Iterable[Delivery]) -> int | None:
    answers = (a.until for d in queues for a in d.memo.attempts if _is_answer(a))
    return min(answers, default=None)


def _completed(queues: Sequence[Delivery], logged: Sequence[str]) -> int | None:
    """Once all that it needs have confirmed it."""
    if logged or not all(d.state is State.COMPLETED for d in queues):
        return None
    return max((d.at for d in queues), default=None)


def _failed(queues: Iterable[Delivery]) -> int | None:
    return max((d.at for d in queues if d.place is Place.DEAD), default=None)


def _modified(message: Message, queues: Iterable[Delivery]) -> int:
    """The last change that the records tell of."""
    return max([message.created, *(instant for d in queues for instant in _changes(d))])


def _changes(delivery: Delivery) -> Iterable[int]:
    if delivery.place in (Place.HISTORY, Place.DEAD):
        yield delivery.at
    if delivery.lease is not None:
        yield delivery.lease.since
    if delivery.memo.pulse_at is not None:
        yield delivery.memo.pulse_at
    yield from (attempt.until for attempt in delivery.memo.attempts)


def _queue_wait(message: Message, queues: Iterable[Delivery]) -> int | None:
    """Of the delivery that was leased first."""
    leased = [d for d in queues if _leases(d)]
    if not leased:
        return None
    first = min(leased, key=lambda d: _leases(d)[0].since)
    available = first.placed if first.memo.available is None else first.memo.available
    # One that took the place of an older version was not there before it was sent.
    return _span(max(available, message.created), _leases(first)[0].since)


def _span(since: int | None, until: int | None) -> int | None:
    return None if since is None or until is None else max(0, until - since)


def compact(instant: int) -> str:
    """As the document writes an instant, in UTC."""
    days, seconds = divmod(instant // SECOND, 24 * 3600)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    year, month, day = _date(days)
    return f"{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}"


def _date(days: int) -> tuple[int, int, int]:
    """The Gregorian date so many days after 1970, by years that begin in March: so the day that is
    sometimes missing is the last one of a year, and of a century, and of an era of 400 years."""
    era, day = divmod(days + 719_468, 146_097)
    year = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5
    january_or_february = month >= 10
    return (
        400 * era + year + january_or_february,
        month - 9 if january_or_february else month + 3,
        day + 1,
    )
