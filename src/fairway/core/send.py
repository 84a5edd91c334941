"""What a producer asks, checked; and the message that is made of it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b

from msgspec import DecodeError, Raw, Struct, json

from fairway.core import limits, topics
from fairway.core.errors import InvalidInput, TooLarge
from fairway.core.records import Message, State

PRIORITIES = {"urgent": 1, "high": 2, "normal": 3, "low": 4}
NORMAL = 3
MIME_TYPES = 256  # remembered: a producer sends the same few


class Send(Struct, frozen=True, gc=False, kw_only=True):
    """One message, to the queue that is named, else to those of its topics."""

    queue: str | None = None
    body: bytes
    mime_type: str
    id: str | None = None
    organization: str = ""
    topics: list[str] = []
    object: str | None = None
    key: str | None = None
    replaces: str | None = None
    priority: int = NORMAL
    delay: int = 0
    ttl: int | None = None
    correlation_id: str | None = None
    timestamp: str | None = None
    headers: dict[str, str] = {}


class Accepted(Struct, frozen=True, gc=False):
    """A send that was checked, with its message and the queues that it goes to."""

    message: Message
    queues: list[str]
    by_name: bool  # the queue was named: it decides first
    priority: int
    delay: int
    ttl: int | None


class Outcome(Struct, frozen=True, gc=False, omit_defaults=True):
    """What became of a send in one target."""

    target: str
    outcome: str
    state: State | None = None
    generation: int = 0
    parked: bool = False
    retryable: bool = False
    reason: str | None = None


class Sent(Struct, frozen=True, gc=False):
    """The answer to a send."""

    id: str
    outcome: str
    targets: tuple[Outcome, ...]


def accept(ask: Send, send: str, new_id: str, now: int) -> Accepted:
    """The message of a send that was checked."""
    named, found = _where(ask)
    message = Message(
        send=send,
        id=new_id if ask.id is None else ask.id,
        organization=ask.organization,
        created=now,
        mime_type=ask.mime_type,
        topics=found,
        object=ask.object,
        key=ask.key,
        replaces=ask.replaces,
        correlation_id=ask.correlation_id,
        timestamp=ask.timestamp,
        # Header names know no case; the same story must read the same over HTTP.
        headers={name.lower(): value for name, value in ask.headers.items()},
        json=is_json(ask.mime_type) and _one_json_value(ask.body),
        body=ask.body,
    )
    return Accepted(message, named, ask.queue is not None, ask.priority, ask.delay, ask.ttl)


def _where(ask: Send) -> tuple[list[str], list[str]]:
    """The queues, and the topics. Nothing named: the queue of the object, else the default one."""
    found = list(dict.fromkeys(ask.topics))
    if ask.queue is not None:
        return [ask.queue], found or [ask.queue]
    if found:
        return topics.roots(found), found
    queue = ask.object if ask.object is not None else topics.DEFAULT_QUEUE
    return [queue], [queue]


def check(ask: Send) -> Send:
    """The same ask, or the error that names the field."""
    if ask.queue is not None:
        topics.check_target(ask.queue)
        topics.check_of_queue(ask.queue, ask.topics)
    elif not ask.topics and ask.object is not None:
        topics.check_target(ask.object, "object")
    topics.check_topics(ask.topics)
    if ask.id is not None:
        topics.check_id(ask.id)
    if ask.priority not in PRIORITIES.values():
        raise InvalidInput("priority", f"{ask.priority} is not 1 (urgent) to 4 (low)")
    check_span("delay", ask.delay, 0)
    if ask.ttl is not None:
        check_span("ttlMs", ask.ttl, 1)
    _check_facts(ask)
    return ask


def check_span(field: str, span: int, least: int) -> None:
    if not least <= span <= limits.DELAY_MAX:
        most = limits.DELAY_MAX // limits.SECOND
        raise InvalidInput(field, f"must be {'more than ' if least else ''}0 to {most} seconds")


def _check_facts(ask: Send) -> None:
    for field, value in (
        ("organization", ask.organization or None),
        ("object", ask.object),
        ("key", ask.key),
        ("replaces", ask.replaces),
        ("correlationId", ask.correlation_id),
        ("timestamp", ask.timestamp),
    ):
        if value is not None:
            topics.check_name(field, value)
    if not ask.mime_type or len(ask.mime_type) > limits.MIME_CHARS:
        raise InvalidInput("mimeType", f"must have 1 to {limits.MIME_CHARS} characters")
    topics.check_text("mimeType", ask.mime_type)
    if ask.headers:
        _check_headers(ask.headers)
    if len(ask.body) > limits.BODY_BYTES:
        raise TooLarge("body", f"{len(ask.body)} bytes, at most {limits.BODY_BYTES}")


def _check_headers(headers: dict[str, str]) -> None:
    if len(headers) > limits.HEADERS:
        raise TooLarge("headers", f"{len(headers)} headers, at most {limits.HEADERS}")
    if sum(len(name) + len(value) for name, value in headers.items()) > limits.HEADER_BYTES:
        raise TooLarge("headers", f"at most {limits.HEADER_BYTES} bytes together")
    for name, value in headers.items():
        topics.check_header(name, value)


@lru_cache(maxsize=MIME_TYPES)
def _kind(mime_type: str) -> str:
    """Without its parameters, which say nothing of what it is."""
    return mime_type.partition(";")[0].strip().lower()


@lru_cache(maxsize=MIME_TYPES)
def is_json(mime_type: str) -> bool:
    """`application/json`, `application/…+json`, with or without parameters."""
    kind = _kind(mime_type)
    suffixed = kind.startswith("application/") and kind.endswith("+json")
    return suffixed or kind == "application/json"


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
    digest = blake2b(message.body or b"", digest_size=16)
    digest.update("\0".join(("", _kind(message.mime_type), *sorted(set(of_target)))).encode())
    return digest.digest()
