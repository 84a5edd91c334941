"""How long a delivery waits before it is tried again."""

from __future__ import annotations

from fairway.core.settings import Backoff


def delay(backoff: Backoff, retries: int, chance: float) -> int:
    """After `retries` earlier ones; half of the span is fixed, half is random (`chance` in 0..1)."""
    if backoff.delays:
        return backoff.delays[min(retries, len(backoff.delays) - 1)]
    span = min(backoff.max, backoff.base * backoff.factor ** min(retries, 60))
    return span // 2 + int(span / 2 * chance)
