"""What the public sees: JSON and headers of sends, messages and settles. Instants are ISO 8601 UTC."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import Raw, Struct, convert, json, to_builtins

from fairway.core.claim import Held
from fairway.core.document import lifecycle, shown_body
from fairway.core.errors import InvalidInput
from fairway.core.events import KINDS, Event, Logged
from fairway.core.limits import MS, SECOND
from fairway.core.records import Message, State
from fairway.core.send import NORMAL, PRIORITIES, Send

INSTANTS = frozenset(name for name, kind in KINDS.items() if kind == "instant")


NO_BODY = Raw(b"")  # the key is left out: `bodyBase64` stands there instead


class HeldMessage(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A message under a lease, as an item of pop-many."""

    id: str
    ack_id: str
    generation: int
    state: State
    lifecycle: str | None
    body: Raw = NO_BODY
    body_base64: str | None = None
    mime_type: str
    topics: list[str]
    topic_count: int
    object: str | None = None
    key: str | None = None
    replaces: str | None = None
    organization: str | None = None
    priority: int
    correlation_id: str | None = None
    timestamp: str | None = None
    headers: dict[str, str] = {}
    available_at: str
    expires_at: str
    deadline_at: str
    visibility_window: int
    token: int
    retries: int
    requeues: int
    deliveries: int
    redelivered: bool
    created: str


class SettleFacts(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What may come with a nak or a reject."""

    reason: str | None = None
    code: str | None = None
    delay_ms: int | None = None
    severity: str | None = None


class SettledReply(Struct, frozen=True):
    """The answer to a settle."""

    outcome: str
    state: State
    lifecycle: str | None


def held_message(held: Held) -> HeldMessage:
    message = held.message
    body, base64 = shown_body(message)
    return HeldMessage(
        id=message.id,
        ack_id=held.ack_id,
        generation=held.generation,
        state=held.state,
        lifecycle=lifecycle(held.state),
        body=body if base64 is None else NO_BODY,
        body_base64=base64,
        mime_type=message.mime_type,
        topics=message.topics,
        topic_count=len(message.topics),
        object=message.object,
        key=message.key,
        replaces=message.replaces,
        organization=message.organization or None,
        priority=held.priority,
        correlation_id=message.correlation_id,
        timestamp=message.timestamp,
        headers=message.headers,
        available_at=iso(held.available_at),
        expires_at=iso(held.expires_at),
        deadline_at=iso(held.deadline_at),
        visibility_window=held.window // MS,
        token=held.token,
        retries=held.retries,
        requeues=held.requeues,
        deliveries=held.attempt,
        redelivered=held.redelivered,
        created=iso(message.created),
    )


def held_of(queue: str, item: HeldMessage) -> Held:
    """The client's way back."""
    message = Message(
        send="",
        id=item.id,
        organization=item.organization or "",
        created=instant(item.created),
        mime_type=item.mime_type,
        topics=item.topics,
        object=item.object,
        key=item.key,
        replaces=item.replaces,
        correlation_id=item.correlation_id,
        timestamp=item.timestamp,
        headers=item.headers,
        body=_bytes(item),
    )
    return Held(
        queue=queue,
        message=message,
        ack_id=item.ack_id,
        generation=item.generation,
        state=item.state,
        priority=item.priority,
        token=item.token,
        attempt=item.deliveries,
        retries=item.retries,
        requeues=item.requeues,
        redelivered=item.redelivered,
        available_at=instant(item.available_at),
        expires_at=instant(item.expires_at),
        deadline_at=instant(item.deadline_at),
        window=item.visibility_window * MS,
    )


def _bytes(item: HeldMessage) -> bytes:
    if item.body_base64 is not None:
        return b64decode(item.body_base64)
    if item.mime_type.startswith("text/"):
        return json.decode(item.body, type=str).encode()
    return bytes(item.body)


def event(logged: Logged) -> dict[str, object]:
    """An event as one line of NDJSON; what is null is left out."""
    given = {k: v for k, v in to_builtins(logged.event).items() if v is not None}
    for name, value in given.items():
        if name in INSTANTS:
            given[name] = iso(value)
    given["organization"] = given["organization"] or None
    if logged.event.fingerprint is not None:
        given["fingerprint"] = logged.event.fingerprint.hex()
    return {"shard": logged.shard, "position": logged.position, **given}


def logged_of(line: dict[str, Any]) -> Logged:
    """The client's way back."""
    given = {name: value for name, value in line.items() if name not in ("shard", "position")}
    for name in given.keys() & INSTANTS:
        given[name] = instant(given[name])
    given["organization"] = given.get("organization") or ""
    if "fingerprint" in given:
        given["fingerprint"] = bytes.fromhex(given["fingerprint"])
    event = convert(given, Event)
    return Logged(shard=line["shard"], position=line["position"], event=event)


# --- headers (UTF-8 both ways)

FREE = "x-header-"
LATER = {"x-gid": "replaces", "x-ttl-ms": "ttlMs"}  # refused, so that nobody relies on them in vain


def send_of(
    queue: str, id: str | None, headers: Iterable[tuple[bytes, bytes]], body: bytes
) -> Send:
    given = {name.decode("latin-1"): _text(name, value) for name, value in headers}
    for name, field in LATER.items():
        if name in given:
            raise InvalidInput(field, f"this version does not know {name} yet: leave it out")
    return Send(
        queue=queue,
        id=id,
        body=body,
        mime_type=given.get("content-type", "application/octet-stream"),
        organization=given.get("x-organization", ""),
        topics=[t.strip() for t in given["x-topics"].split(",")] if "x-topics" in given else [],
        object=given.get("x-object"),
        key=given.get("x-key"),
        priority=_priority(given.get("x-priority")),
        delay=milliseconds("delayMs", given.get("x-delay-ms"), 0),
        correlation_id=given.get("x-cid"),
        timestamp=given.get("x-timestamp"),
        headers={name[len(FREE) :]: given[name] for name in given if name.startswith(FREE)},
    )


def send_headers(ask: Send) -> dict[str, str]:
    """The client's way."""
    headers = {
        "Content-Type": ask.mime_type,
        "X-Organization": ask.organization or None,
        "X-Topics": ",".join(ask.topics) or None,
        "X-Object": ask.object,
        "X-Key": ask.key,
        "X-Priority": str(ask.priority),
        "X-Delay-Ms": str(ask.delay // MS) if ask.delay else None,
        "X-CId": ask.correlation_id,
        "X-Timestamp": ask.timestamp,
    }
    free = {f"X-Header-{name}": value for name, value in ask.headers.items()}
    return {name: value for name, value in headers.items() if value is not None} | free


def held_headers(held: Held) -> Mapping[str, str]:
    message = held.message
    headers = {
        "Content-Type": message.mime_type,
        "X-MId": message.id,
        "X-Ack": held.ack_id,
        "X-State": held.state.value,
        "X-Lifecycle": lifecycle(held.state),
        "X-Generation": str(held.generation),
        "X-Token": str(held.token),
        "X-Retries": str(held.retries),
        "X-Deliveries": str(held.attempt),
        "X-Redelivered": str(held.redelivered).lower(),
        "X-Deadline": iso(held.deadline_at),
        "X-Created": iso(message.created),
        "X-Priority": str(held.priority),
        "X-Topics": ",".join(message.topics),
        "X-Organization": message.organization or None,
        "X-Object": message.object,
        "X-Key": message.key,
        "X-CId": message.correlation_id,
        "X-Timestamp": message.timestamp,
    }
    free = {f"X-Header-{name}": value for name, value in message.headers.items()}
    return {name: value for name, value in headers.items() if value is not None} | free


def milliseconds(field: str, given: str | None, default: int) -> int:
    """A whole number of ms, as µs."""
    if given is None:
        return default
    return whole(field, given) * MS


def whole(field: str, given: str) -> int:
    if not (given.isascii() and given.isdigit() and len(given) <= 18):
        raise InvalidInput(field, f"{given[:40]!r} is not a whole number of 0 or more")
    return int(given)


def iso(us: int) -> str:
    text = datetime.fromtimestamp(us // SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{us % SECOND // MS:03d}Z"


def instant(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000) * MS


def _priority(given: str | None) -> int:
    if given is None:
        return NORMAL
    if given in PRIORITIES:
        return PRIORITIES[given]
    if not given.isdigit():
        raise InvalidInput(
            "priority", f"{given[:40]!r} is not one of {', '.join(PRIORITIES)}, nor 1 to 4"
        )
    return whole("priority", given)


def _text(name: bytes, value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise InvalidInput(name.decode("latin-1"), "is not UTF-8") from None
