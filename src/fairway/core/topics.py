"""Names, and what a topic says of its queue."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from fairway.core import limits
from fairway.core.errors import InvalidInput, TooLarge

_TARGET: Final = re.compile(r"[A-Za-z0-9_-]{1,80}")
_ID: Final = re.compile(r"[-.:_A-Za-z0-9]{1,128}")
_HEADER: Final = re.compile(r"[A-Za-z0-9-]{1,64}")
PATH_WORDS: Final = frozenset({".", "..", "pop", "pop-many", "push-many", "settle-many"})


def root(topic: str) -> str:
    """The text before the first dot names the queue; nothing after it has a meaning."""
    return topic.partition(".")[0]


def check_target(name: str, field: str = "queue") -> str:
    if not _TARGET.fullmatch(name):
        raise InvalidInput(
            field, f"{name[:100]!r} is not a name: 1 to {limits.TARGET_CHARS} of A-Z a-z 0-9 _ -"
        )
    return name


def check_id(value: str) -> str:
    if value in PATH_WORDS or not _ID.fullmatch(value):
        raise InvalidInput(
            "id",
            f"{value[:140]!r} is not an id: 1 to {limits.ID_CHARS} of A-Z a-z 0-9 - . : _, and "
            "no word of the paths",
        )
    return value


def check_topics(queue: str, topics: Sequence[str]) -> None:
    """The topics of a send to `queue`: all of its root."""
    for topic in topics:
        if not topic or len(topic.encode()) > limits.TOPIC_BYTES:
            raise InvalidInput(
                "topics", f"{topic[:100]!r} must have 1 to {limits.TOPIC_BYTES} bytes"
            )
        if root(topic) != queue:
            raise InvalidInput(
                "topics", f"{topic!r} belongs to the queue {root(topic)[:80]!r}, not to {queue!r}"
            )
        check_text("topics", topic)
    if len(topics) > limits.TOPICS:
        raise TooLarge("topics", f"{len(topics)} topics, at most {limits.TOPICS}")


def check_name(field: str, value: str) -> str:
    """Organization, object, key, consumer, service, code: any text within the limit."""
    if not value or len(value.encode(errors="surrogatepass")) > limits.NAME_BYTES:
        raise InvalidInput(field, f"must have 1 to {limits.NAME_BYTES} bytes")
    return check_text(field, value)


def check_header(name: str, value: str) -> None:
    """What can stand in an HTTP header: a token, and visible ASCII."""
    if not _HEADER.fullmatch(name):
        raise InvalidInput("headers", f"{name[:80]!r} is not a header name: A-Z a-z 0-9 and -")
    if not value.isascii() or not (value.isprintable() or not value):
        raise InvalidInput("headers", f"the value of {name} holds more than visible ASCII")


def check_text(field: str, value: str) -> str:
    """No control characters, no lone surrogates: a value must survive headers, logs and stores."""
    if any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 or 0xD800 <= ord(c) < 0xE000 for c in value):
        raise InvalidInput(field, "holds a control character or a lone surrogate")
    return value
