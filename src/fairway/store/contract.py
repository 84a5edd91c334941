"""What a store promises. It compares, moves and counts; it knows no rule.

Every verb takes many and answers each, in their order. Instants are integers of µs.

Records (`fairway.core.records`), what a store has to know of them, and who may remove them:

  Delivery   key (target, organization, id). At most one of a key is open (place WAITING or LEASED);
             any number is at rest (HISTORY, DEAD), one for each `generation`. "The newest" is the
             open one, else the one at rest with the largest generation. Places are kept apart, so
             that no verb slows down as those at rest grow. `lease` and `memo` are the core's own:
             kept and given back as they came. A delivery that waits is claimable once neither
             `placed` nor `at` is ahead of now, in the order (placed, sequence, id) of its lane
             (target, priority, organization).
  Message    key `send`. Written once, before what points to it, never changed.
  Event      what happened; the store packs the events of a change (core/events.py) and gives them
             positions. Never changed.

Removal of what is at rest, of messages and of events comes with retention; until then nothing goes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from fairway.core.records import (
    Block,
    Change,
    Claim,
    Conflict,
    Delivery,
    Front,
    Grant,
    Key,
    LogState,
    Message,
)


class Store(Protocol):
    """Open one with `fairway.store.registry.open_store(url)`."""

    durability: str
    """`sync`: on disk before the answer. `none`: gone with the process."""

    async def commit(self, changes: Sequence[Change], now: int) -> Sequence[Conflict | None]:
        """Each change by itself: all of it or nothing, durable before the answer.

        A put holds if its `was` is the newest of its key: absent where `was` is None; waiting at
        the same place in line and generation; at rest in the same place and generation; leased under
        the same token and claim, and its deadline ahead (or behind, if the put says `lapsed`), judged
        by the later of `now` and the store's own clock. The puts of a change are taken in their order,
        each on what the one before left. A put whose `now` is a newer generation over one at rest
        leaves that one where it is; any other replaces `was`.

        If one does not hold, nothing of its change happens, and the conflict brings the newest of
        every key that the change names. The events of a change come into the log exactly once, in
        their order, and only with it.
        """
        ...

    async def claim(self, claims: Sequence[Claim]) -> Sequence[Sequence[Grant]]:
        """Lease what is available, for each claim by itself.

        Demands are walked in their order, each lane first in line first, until the stamp's limit is
        reached, or the next delivery's `size` would pass its `room` (one is granted in any case).
        What a granted delivery becomes, and the event that goes into the log with it, are
        `core.claim.leased` and `core.claim.event`. Less than asked, perhaps; one delivery twice, or
        one that is not claimable at the stamp's `now`, never. Durable before the answer.
        """
        ...

    async def find(self, keys: Sequence[Key]) -> Sequence[Delivery | None]:
        """The newest of each key, as last committed."""
        ...

    async def messages(self, sends: Sequence[str]) -> Sequence[Message | None]:
        """What was sent, by `send`."""
        ...

    async def lapsed(self, now: int, limit: int) -> Sequence[Delivery]:
        """Leased deliveries whose deadline is not ahead of `now`: longest over first, then by key."""
        ...

    async def fronts(self, target: str, limit: int) -> Sequence[Front]:
        """The lanes of a target that hold something, in order, each with the `placed` of its first.

        May be stale. Costs O(lanes), whatever they hold.
        """
        ...

    async def log(self) -> LogState:
        """What can be read now. A position that is readable stays so until retention takes it."""
        ...

    def read_log(self, shard: int, first: int, last: int) -> AsyncIterator[Sequence[Block]]:
        """Blocks that cover the positions first..last, in order, in pages of bounded size.

        Positions are dense from 1 and never change; none ever appears behind a reader.
        """
        ...

    async def wait(self, target: str, seen: int, timeout: float) -> int:
        """Returns another number than `seen` once something may have become ready in `target`.

        A hint: it may come too often, and after `timeout` seconds it comes anyway. A number is taken
        before looking (`seen` −1: the number of now, at once), so nothing is missed in between.
        """
        ...

    async def close(self) -> None:
        """Ends what the store started. What was answered stays done."""
        ...
