"""Names, what a topic says of its queue, and what a channel subscribes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from fairway.core import limits
from fairway.core.errors import InvalidInput, TooLarge

CHANNEL: Final = "channel:"
PATH_WORDS: Final = frozenset({".", "..", "pop", "pop-many", "push-many", "settle-many"})
REMEMBERED: Final = 4096  # names that need not be checked again
DEFAULT_QUEUE: Final = "default"
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,80}")
_ID: Final = re.compile(r"[-.:_A-Za-z0-9]{1,128}")
_UNFIT: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_HEADER: Final = re.compile(r"[A-Za-z0-9-]{1,64}")


def root(topic: str) -> str:
    """The text before the first dot names the queue; nothing after it has a meaning."""
    return topic.partition(".")[0]


def roots(topics: Sequence[str]) -> list[str]:
    """The distinct queues that topics name, in their order."""
    return list(dict.fromkeys(root(topic) for topic in topics))


def channel(name: str) -> str:
    return CHANNEL + name


def is_channel(target: str) -> bool:
    return target.startswith(CHANNEL)


def matches(pattern: str, topic: str) -> bool:
    """`fruit.sweet` itself; `fruit.*`: `fruit` and all that begins `fruit.`; `*`: all."""
    if pattern == "*":
        return True
    if not pattern.endswith(".*"):
        return pattern == topic
    stem = pattern[:-2]
    return topic == stem or topic.startswith(stem + ".")


def of_target(target: str, patterns: Sequence[str], topics: Sequence[str]) -> list[str]:
    """The topics that concern a target: those of a queue's root, those that a channel subscribes."""
    if is_channel(target):
        return [topic for topic in topics if any(matches(p, topic) for p in patterns)]
    return [topic for topic in topics if root(topic) == target]


@lru_cache(maxsize=REMEMBERED)
def check_target(target: str, field: str = "queue") -> str:
    name = target.removeprefix(CHANNEL)
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            field, f"{name[:100]!r} is not a name: 1 to {limits.TARGET_CHARS} of A-Z a-z 0-9 _ -"
        )
    return target


def check_id(value: str) -> str:
    if value in PATH_WORDS or not _ID.fullmatch(value):
        raise InvalidInput(
            "id",
            f"{value[:140]!r} is not an id: 1 to {limits.ID_CHARS} of A-Z a-z 0-9 - . : _, and "
            "no word of the paths",
        )
    return value


def check_topics(topics: Sequence[str]) -> None:
    """Each a text of its own, whose root is a queue's name."""
    if len(topics) > limits.TOPICS:
        raise TooLarge("topics", f"{len(topics)} topics, at most {limits.TOPICS}")
    for topic in topics:
        _check_topic(topic)
        check_target(root(topic), "topics")


def check_of_queue(queue: str, topics: Sequence[str]) -> None:
    """The topics of a send to `queue` by its name: all of its root."""
    for topic in topics:
        if root(topic) != queue:
            raise InvalidInput(
                "topics", f"{topic!r} belongs to the queue {root(topic)[:80]!r}, not to {queue!r}"
            )


def check_patterns(patterns: Sequence[str]) -> tuple[str, ...]:
    """What a channel may subscribe; a `*` only alone or at the end."""
    if not 1 <= len(patterns) <= limits.SUBSCRIPTIONS:
        raise InvalidInput("topics", f"a channel subscribes 1 to {limits.SUBSCRIPTIONS} topics")
    for pattern in patterns:
        _check_topic(pattern)
        stem = "" if pattern == "*" else pattern.removesuffix(".*")
        if "*" in stem:
            raise InvalidInput(
                "topics", f"{pattern!r}: a * stands alone, or at the end after a dot"
            )
    return tuple(dict.fromkeys(patterns))


def _check_topic(topic: str) -> None:
    if not topic or bytes_of(topic) > limits.TOPIC_BYTES:
        raise InvalidInput("topics", f"{topic[:100]!r} must have 1 to {limits.TOPIC_BYTES} bytes")
    check_text("topics", topic)


def check_name(field: str, value: str) -> str:
    """Organization, object, key, replaces, consumer, service, code: any text within the limit."""
    if not value or bytes_of(value) > limits.NAME_BYTES:
        raise InvalidInput(field, f"must have 1 to {limits.NAME_BYTES} bytes")
    return check_text(field, value)


def bytes_of(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def check_header(name: str, value: str) -> None:
    """What can stand in an HTTP header: a token, and visible ASCII."""
    if not _HEADER.fullmatch(name):
        raise InvalidInput("headers", f"{name[:80]!r} is not a header name: A-Z a-z 0-9 and -")
    if not value.isascii() or not (value.isprintable() or not value):
        raise InvalidInput("headers", f"the value of {name} holds more than visible ASCII")


def check_text(field: str, value: str) -> str:
    """No control characters, no lone surrogates: a value must survive headers, logs and stores."""
    if _UNFIT.search(value):
        raise InvalidInput(field, "holds a control character or a lone surrogate")
    return value
