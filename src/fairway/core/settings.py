"""What may be set for a queue, with its defaults. Spans are µs, as everywhere inside."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from fairway.core.limits import SECOND


class Backoff(Struct, frozen=True, gc=False):
    """How long a failed delivery waits: base × factor^n up to max, half of it random."""

    base: int = 10 * SECOND
    factor: int = 2
    max: int = 900 * SECOND


class Settings(Struct, frozen=True, gc=False):
    """The settings of one queue."""

    visibility_window: int = 30 * SECOND
    duplication_window: int = 600 * SECOND
    max_retries: int = 7
    backoff: Backoff = Backoff()


DEFAULTS: Final = Settings()
