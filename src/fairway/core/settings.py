"""What may be set for a queue or a channel: defaults, and the checks that name the field.

Spans are µs, as everywhere inside; the wire speaks ms.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from fairway.core import limits
from fairway.core.errors import InvalidInput
from fairway.core.limits import DAY, SECOND


class Backoff(Struct, frozen=True, gc=False):
    """How long a failed delivery waits: base × factor^n up to max, half of it random; or a list."""

    base: int = 10 * SECOND
    factor: int = 2
    max: int = 900 * SECOND
    delays: tuple[int, ...] = ()  # instead of the formula; the last one repeats


class Retention(Struct, frozen=True, gc=False):
    """How long, and how much, rests."""

    history: int = 7 * DAY
    history_max: int = 1_000_000
    dead: int = 91 * DAY
    dead_max: int = 1_000_000


class Settings(Struct, frozen=True, gc=False):
    """The settings of one target."""

    visibility_window: int = 30 * SECOND
    duplication_window: int = 600 * SECOND
    duplicate: str = "update"
    unchanged: str = "drop"
    message_ttl: int = 14 * DAY
    max_retries: int = 7
    max_deliveries: int = 1000
    backoff: Backoff = Backoff()
    redelivery_delay: int = 10 * SECOND
    confirmations: int = 1
    max_active: dict[str, int] | None = None  # service → number; "*": each service not named
    shares: tuple[int, int, int, int] = (40, 30, 20, 10)
    min_active: int = 5
    borrow: bool = False
    retention: Retention = Retention()
    routing: str = "broker"
    max_queued: int = 1_000_000
    max_queued_bytes: int = 1 << 30

    def active_limit(self, service: str) -> int | None:
        """How many leases a service may hold in this queue; None: any number."""
        if self.max_active is None:
            return None
        return self.max_active.get(service, self.max_active.get("*"))


DEFAULTS: Final = Settings()

_CHOICES: Final = {
    "duplicate": ("ignore", "update", "error"),
    "unchanged": ("drop", "deliver"),
    "routing": ("broker", "spark"),
}
_RANGES: Final = {
    "visibility_window": (limits.WINDOW_MIN, limits.WINDOW_MAX),
    "duplication_window": (0, 7 * DAY),
    "message_ttl": (SECOND, limits.DELAY_MAX),
    "max_retries": (0, 100),
    "max_deliveries": (1, 1_000_000),
    "redelivery_delay": (0, limits.DELAY_MAX),
    "confirmations": (1, limits.CONFIRMATIONS),
    "min_active": (1, limits.MAX_ACTIVE),
    "max_queued": (1, limits.MAX_QUEUED),
    "max_queued_bytes": (1, 1 << 50),
}


def check(settings: Settings) -> Settings:
    """The same settings, or the error that names the field and what it may be."""
    for field, choices in _CHOICES.items():
        if getattr(settings, field) not in choices:
            raise InvalidInput(_wire(field), f"must be one of {', '.join(choices)}")
    for field, (least, most) in _RANGES.items():
        _within(_wire(field), getattr(settings, field), least, most)
    if len(settings.shares) != 4 or min(settings.shares) < 0 or sum(settings.shares) != 100:
        raise InvalidInput("shares", "must be four whole numbers, not negative, whose sum is 100")
    for service, number in (settings.max_active or {}).items():
        _within(f"maxActive.{service}", number, 1, limits.MAX_ACTIVE)
    _check_backoff(settings.backoff)
    kept = settings.retention
    _within("retention.historyMs", kept.history, 0, 10 * 366 * DAY)
    _within("retention.deadMs", kept.dead, 0, 10 * 366 * DAY)
    _within("retention.historyMax", kept.history_max, 0, 100_000_000)
    _within("retention.deadMax", kept.dead_max, 0, 100_000_000)
    return settings


def _check_backoff(backoff: Backoff) -> None:
    _within("backoff.baseMs", backoff.base, 0, limits.DELAY_MAX)
    _within("backoff.maxMs", backoff.max, backoff.base, limits.DELAY_MAX)
    _within("backoff.factor", backoff.factor, 1, 100)
    if len(backoff.delays) > limits.BACKOFF_DELAYS:
        raise InvalidInput("backoff.delaysMs", f"at most {limits.BACKOFF_DELAYS} delays")
    for delay in backoff.delays:
        _within("backoff.delaysMs", delay, 0, limits.DELAY_MAX)


def _within(field: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise InvalidInput(field, f"{value} is not within {least} and {most}")


def _wire(field: str) -> str:
    first, *rest = field.split("_")
    return first + "".join(word.capitalize() for word in rest)
