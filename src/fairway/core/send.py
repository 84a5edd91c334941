"""What a send does: check, log, same id?, place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b

from msgspec import DecodeError, Raw, Struct, json
from msgspec.structs import replace

from fairway.core import limits, topics
from fairway.core.errors import FairwayError, InvalidInput, Leased, TooLarge
from fairway.core.events import Event
from fairway.core.lifecycle import PLACES, Row, Verb, When, step
from fairway.core.plan import Chance, Plan
from fairway.core.records import Change, Delivery, Key, Message, Put, State
from fairway.core.settings import Settings

PRIORITIES = {"urgent": 1, "high": 2, "normal": 3, "low": 4}
NORMAL = 3


class Send(Struct, frozen=True, gc=False, kw_only=True):
    """What a producer asks: one message to one queue."""

    queue: str
    body: bytes
    mime_type: str
    id: str | None = None
    organization: str = ""
    topics: list[str] = []
    object: str | None = None
    key: str | None = None
    priority: int = NORMAL
    delay: int = 0
    correlation_id: str | None = None
    timestamp: str | None = None
    headers: dict[str, str] = {}


class Accepted(Struct, frozen=True, gc=False):
    """A send that was checked, with its message."""

    queue: str
    message: Message
    priority: int
    delay: int

    @property
    def key(self) -> Key:
        return Key(self.queue, self.message.organization, self.message.id)


class Outcome(Struct, frozen=True, gc=False):
    """What became of a send in one target."""

    target: str
    outcome: str
    state: State
    generation: int


class Sent(Struct, frozen=True, gc=False):
    """The answer to a send."""

    id: str
    outcome: str
    targets: tuple[Outcome, ...]


def accept(ask: Send, send: str, new_id: str, now: int) -> Accepted:
    """The message of a send that was checked."""
    message = Message(
        send=send,
        id=new_id if ask.id is None else ask.id,
        organization=ask.organization,
        created=now,
        mime_type=ask.mime_type,
        topics=list(dict.fromkeys(ask.topics)) or [ask.queue],
        object=ask.object,
        key=ask.key,
        correlation_id=ask.correlation_id,
        timestamp=ask.timestamp,
        # Header names know no case; the same story must read the same over HTTP.
        headers={name.lower(): value for name, value in ask.headers.items()},
        json=is_json(ask.mime_type) and _one_json_value(ask.body),
        body=ask.body,
    )
    return Accepted(ask.queue, message, ask.priority, ask.delay)


def check(ask: Send) -> Send:
    """The same ask, or the error that names the field."""
    topics.check_target(ask.queue)
    topics.check_topics(ask.queue, ask.topics)
    if ask.id is not None:
        topics.check_id(ask.id)
    if ask.priority not in PRIORITIES.values():
        raise InvalidInput("priority", f"{ask.priority} is not 1 (urgent) to 4 (low)")
    if not 0 <= ask.delay <= limits.DELAY_MAX:
        raise InvalidInput("delay", f"must be 0 to {limits.DELAY_MAX // limits.SECOND} seconds")
    _check_facts(ask)
    return ask


def _check_facts(ask: Send) -> None:
    names = {"organization": ask.organization or None, "object": ask.object, "key": ask.key}
    names |= {"correlationId": ask.correlation_id, "timestamp": ask.timestamp}
    for field, value in names.items():
        if value is not None:
            topics.check_name(field, value)
    if not ask.mime_type or len(ask.mime_type) > limits.MIME_CHARS:
        raise InvalidInput("mimeType", f"must have 1 to {limits.MIME_CHARS} characters")
    topics.check_text("mimeType", ask.mime_type)
    if len(ask.headers) > limits.HEADERS:
        raise TooLarge("headers", f"{len(ask.headers)} headers, at most {limits.HEADERS}")
    if sum(len(name) + len(value) for name, value in ask.headers.items()) > limits.HEADER_BYTES:
        raise TooLarge("headers", f"at most {limits.HEADER_BYTES} bytes together")
    for name, value in ask.headers.items():
        topics.check_header(name, value)
    if len(ask.body) > limits.BODY_BYTES:
        raise TooLarge("body", f"{len(ask.body)} bytes, at most {limits.BODY_BYTES}")


def is_json(mime_type: str) -> bool:
    """`application/json`, `application/…+json`, with or without parameters."""
    kind = mime_type.partition(";")[0].strip().lower()
    return kind == "application/json" or (
        kind.startswith("application/") and kind.endswith("+json")
    )


def _one_json_value(body: bytes) -> bool:
    """Whether the bytes may stand as they are where JSON wants a value."""
    try:
        body.decode()
        json.decode(body, type=Raw)
    except (DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def fingerprint(message: Message, of_target: Sequence[str]) -> bytes:
    """Of the body, the mime type without parameters, and the target's distinct topics, sorted."""
    digest = blake2b(message.body, digest_size=16)
    digest.update(b"\0" + message.mime_type.partition(";")[0].strip().lower().encode())
    for topic in sorted(set(of_target)):
        digest.update(b"\0" + topic.encode())
    return digest.digest()


def decide(
    ask: Accepted, known: Mapping[Key, Delivery | None], rules: Settings, now: int, chance: Chance
) -> Plan[Sent] | FairwayError:
    """What to commit, and the answer once it is."""
    print_ = fingerprint(ask.message, ask.message.topics)
    newest = known.get(ask.key)
    if newest is None:
        return _place(ask, None, print_, now, chance)
    row = step(Verb.SEND, newest.place, _facts(newest, print_, rules, now))
    if row is not None and row.to is None:
        return _duplicate(ask, newest, print_, now)
    if row is not None:
        return _replace(ask, newest, row, print_, now, chance)
    if newest.place is PLACES[State.LEASED]:
        return Leased(
            f"{ask.message.id} is being worked on in {ask.queue} with other content: send it again "
            "when its lease has ended, or under a new id"
        )
    return _place(ask, newest, print_, now, chance)


def _facts(newest: Delivery, print_: bytes, rules: Settings, now: int) -> set[When]:
    facts: set[When] = set()
    if newest.fingerprint == print_:
        facts.add(When.SAME)
        if now - newest.at < rules.duplication_window:
            facts.add(When.WINDOW)
    return facts


def _place(
    ask: Accepted, ended: Delivery | None, print_: bytes, now: int, chance: Chance
) -> Plan[Sent]:
    """A new message, or a new version of one that ended: to the end of its line."""
    generation = 1 if ended is None else ended.generation + 1
    born = _born(ask, generation, print_, now + ask.delay, chance)
    events = (_logged(ask, now), _event(ask, born, "queued", now))
    return Plan(Change((Put(born, ended),), events, (ask.message,)), _sent(ask, "queued", born))


def _replace(
    ask: Accepted, waiting: Delivery, row: Row, print_: bytes, now: int, chance: Chance
) -> Plan[Sent]:
    """The newer version takes the place in line, unless the priority or the delay is another."""
    assert row.to is not None
    old = replace(waiting, place=PLACES[row.to], state=row.to, at=now)
    born = _born(ask, waiting.generation + 1, print_, now + ask.delay, chance)
    if ask.priority == waiting.priority and not ask.delay:
        born = replace(born, placed=waiting.placed, sequence=waiting.sequence, at=waiting.at)
    ended = Event(
        at=now, letter=row.to, kind=row.event, target=old.target, organization=old.organization,
        id=old.id, generation=old.generation, priority=old.priority, cause=ask.message.send,
        send_id=old.send,
    )  # fmt: skip
    events = (_logged(ask, now), ended, _event(ask, born, "updated", now))
    puts = (Put(old, waiting), Put(born, old))
    return Plan(Change(puts, events, (ask.message,)), _sent(ask, "updated", born))


def _duplicate(ask: Accepted, newest: Delivery, print_: bytes, now: int) -> Plan[Sent]:
    """Nothing changes; that it was sent, and why it was not placed, is in the log."""
    event = Event(
        at=now, letter="D", kind="duplicate", target=ask.queue,
        organization=newest.organization, id=newest.id, generation=newest.generation,
        fingerprint=print_, cause=newest.send, send_id=ask.message.send,
    )  # fmt: skip
    return Plan(Change((), (_logged(ask, now), event)), _sent(ask, "duplicate", newest))


def _born(
    ask: Accepted, generation: int, print_: bytes, available: int, chance: Chance
) -> Delivery:
    state = State.QUEUED
    return Delivery(
        target=ask.queue,
        organization=ask.message.organization,
        id=ask.message.id,
        generation=generation,
        place=PLACES[state],
        state=state,
        priority=ask.priority,
        placed=available,
        sequence=chance.sequence,
        at=available,
        send=ask.message.send,
        size=len(ask.message.body),
        fingerprint=print_,
    )


def _logged(ask: Accepted, now: int) -> Event:
    message = ask.message
    return Event(
        at=now, letter="L", kind="logged", target="", organization=message.organization,
        id=message.id, priority=ask.priority, size=len(message.body), object=message.object,
        key=message.key, topics=message.topics, send_id=message.send,
    )  # fmt: skip


def _event(ask: Accepted, born: Delivery, kind: str, now: int) -> Event:
    message = ask.message
    return Event(
        at=now, letter=born.state, kind=kind, target=born.target,
        organization=born.organization, id=born.id, generation=born.generation,
        priority=born.priority, size=len(message.body), fingerprint=born.fingerprint,
        object=message.object, key=message.key, topics=message.topics, available_at=born.at,
        send_id=message.send,
    )  # fmt: skip


def _sent(ask: Accepted, outcome: str, delivery: Delivery) -> Sent:
    one = Outcome(ask.queue, outcome, delivery.state, delivery.generation)
    return Sent(ask.message.id, outcome, (one,))
