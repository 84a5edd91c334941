"""The time of this machine, ids and chance: all that is not decided, in one place to be injected."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from uuid import UUID

from fairway.core.plan import Chance

Clock = Callable[[], int]  # µs since 1970, UTC


def system_clock() -> Clock:
    """Never goes back within a process, whatever the machine's clock does."""
    last = 0

    def now() -> int:
        nonlocal last
        last = max(last, time.time_ns() // 1000)
        return last

    return now


class Source:
    """Ids, places in line and chance. Larger sequences later, across restarts too."""

    def __init__(self, clock: Clock, seed: int | None = None) -> None:
        self._clock = clock
        self._sequence = 0
        self._random = random.Random(seed) if seed is not None else random.SystemRandom()
        self._seeded = seed is not None

    def chance(self) -> Chance:
        self._sequence = max(self._sequence + 1, self._clock())
        return Chance(self._sequence, self._random.random())

    def claim(self) -> bytes:
        """96 random bits: what makes an ack id unguessable."""
        return self._bytes(12)

    def uuid7(self) -> str:
        """A UUID that sorts by the time it was made (RFC 9562, version 7)."""
        ms = self._clock() // 1000
        tail = int.from_bytes(self._bytes(10))
        value = (ms & (1 << 48) - 1) << 80 | 0x7 << 76 | (tail >> 68 & 0xFFF) << 64
        return str(UUID(int=value | 0b10 << 62 | tail & (1 << 62) - 1))

    def _bytes(self, count: int) -> bytes:
        return self._random.randbytes(count) if self._seeded else os.urandom(count)
