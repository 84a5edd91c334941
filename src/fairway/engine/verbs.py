"""The verbs behind every door: the engine speaks them to a store, the remote over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from fairway.core.claim import Held, Receive
from fairway.core.errors import FairwayError
from fairway.core.events import Logged
from fairway.core.records import LogState
from fairway.core.send import Send, Sent
from fairway.core.settle import Settle, Settled


class Verbs(Protocol):
    """Many in, an answer for each; an item's error is its answer and spoils no other item."""

    async def send(self, asks: Sequence[Send]) -> Sequence[Sent | FairwayError]:
        """Accepted when answered: on disk, where the store has one."""
        ...

    async def receive(self, ask: Receive) -> Sequence[Held]:
        """Leases; none if nothing came within `wait`."""
        ...

    async def settle(self, asks: Sequence[Settle]) -> Sequence[Settled | FairwayError]:
        """What became of each lease, or why nothing was changed."""
        ...

    async def log(self) -> LogState:
        """The log's identity, and what can be read of each shard."""
        ...

    def read_log(
        self, shard: int, first: int, last: int, columns: Sequence[str] | None = None
    ) -> AsyncIterator[bytes]:
        """The positions first..last as one Arrow IPC stream, in chunks."""
        ...

    async def events(self, shard: int, after: int, limit: int) -> Sequence[Logged]:
        """Up to `limit` events behind the position `after`."""
        ...

    async def close(self) -> None:
        """Finishes what was asked."""
        ...
