"""What a consumer holds: a message under a lease. The facts are the same, however it is settled."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from msgspec import json

from fairway.core.claim import Held
from fairway.core.errors import LeaseLost
from fairway.core.limits import SECOND


class Facts:
    """All that can be read of a delivery, without asking anybody."""

    def __init__(self, held: Held) -> None:
        self._held = held
        # By this machine's own watch: two machines' clocks are never compared.
        self._until = time.monotonic() + held.window / SECOND

    def check_held(self) -> None:
        """Raises LeaseLost once the lease must be over, so that no work is begun in vain."""
        if time.monotonic() >= self._until:
            raise LeaseLost(f"the lease of {self.queue}/{self.id} ended before the work began")

    @property
    def id(self) -> str:
        return self._held.message.id

    @property
    def queue(self) -> str:
        return self._held.queue

    @property
    def body(self) -> bytes:
        """The payload, byte for byte as it was sent."""
        return self._held.message.body or b""

    @property
    def mime_type(self) -> str:
        return self._held.message.mime_type

    @property
    def topics(self) -> list[str]:
        return self._held.message.topics

    @property
    def headers(self) -> dict[str, str]:
        return self._held.message.headers

    @property
    def object(self) -> str | None:
        return self._held.message.object

    @property
    def key(self) -> str | None:
        return self._held.message.key

    @property
    def correlation_id(self) -> str | None:
        return self._held.message.correlation_id

    @property
    def priority(self) -> int:
        return self._held.priority

    @property
    def ack_id(self) -> str:
        """The proof of the lease; useless after the settle."""
        return self._held.ack_id

    @property
    def token(self) -> int:
        """Larger at each grant of this delivery: a fence for what the worker writes elsewhere."""
        return self._held.token

    @property
    def attempt(self) -> int:
        """1 for the first lease."""
        return self._held.attempt

    @property
    def redelivered(self) -> bool:
        return self._held.redelivered

    @property
    def created(self) -> datetime:
        return _instant(self._held.message.created)

    @property
    def deadline_at(self) -> datetime:
        """When the lease ends."""
        return _instant(self._held.deadline_at)

    def json(self) -> Any:
        """The payload as a JSON value."""
        return json.decode(self.body)

    def text(self) -> str:
        """The payload as text (UTF-8)."""
        return self.body.decode()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.queue}/{self.id} attempt {self.attempt}>"


def _instant(us: int) -> datetime:
    return datetime.fromtimestamp(us / SECOND, UTC)
