"""What a store promises. It compares, moves and counts; it knows no rule.

Every verb takes many and answers each, in their order. Instants are integers of µs.

Records (`fairway.core.records`), what a store has to know of them, and who may remove them:

  Delivery   key (target, organization, id). At most one of a key is open (place WAITING or LEASED);
             any number is at rest (HISTORY, DEAD), one for each `generation`. "The newest" is the
             open one, else the one at rest with the largest generation; a key that names a
             generation means just that one. Places are kept apart, so that no verb slows down as
             those at rest grow. `lease` and `memo` are the core's own: kept and given back as they
             came. One that waits is claimable once neither `placed` nor `at` is ahead of now, in the
             order (placed, sequence, id) of its lane. Removed from rest alone, by `removes`.
  Message    key `send`. Written once, before what points to it. `holders` counts the deliveries that
             need its body: a put that `forgets` it counts down, and at 0 the body becomes null; the
             rest of it goes with the last delivery that points to it.
  Entry      key (kind, name); bytes that the core understands. Written by puts, removed by drops.
  Event      what happened; the store packs the events of a change (core/events.py) and gives them
             positions. Never changed.
  Counter    a name and a number: how many leased deliveries have that name in `counted`. Made and
             changed by the store itself whenever a delivery enters or leaves LEASED.
  Lane       (target, priority, organization, confirmed): the store tells how many wait and are
             leased in each, exactly or a little late.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from fairway.core.records import (
    AnyKey,
    Block,
    Change,
    Claim,
    Conflict,
    Delivery,
    Entry,
    Filter,
    Grant,
    Load,
    LogState,
    Message,
    Page,
    Place,
    Record,
    Tally,
)


class Store(Protocol):
    """Open one with `fairway.store.registry.open_store(url)`."""

    durability: str
    """`sync`: on disk before the answer. `none`: gone with the process."""

    async def commit(self, changes: Sequence[Change], now: int) -> Sequence[Conflict | None]:
        """Each change by itself: all of it or nothing, durable before the answer.

        A put holds if `was` is the newest of its key: absent where `was` is None; else the same
        version, generation, place and token. Over a leased one it may ask in `hold` that the deadline
        is ahead, or behind, judged by the later of `now` and the store's own clock. A put `beside`
        holds if there is no such generation; it writes one at rest and leaves the newest alone.
        The puts of a change are taken in their order, each on what the one before left. A put whose
        `now` is a newer generation over one at rest leaves that one where it is; any other replaces
        `was`. `holds` names entries that must have just that version (0: absent), `drops` entries
        that must be just so, and are removed; so does `removes` with versions at rest, and a message
        goes with the last delivery that points to it. No two changes of one call name the same key,
        but for `holds`.

        If a part does not hold, nothing of its change happens, and the conflict brings every record
        that the change names, as it is now. The events of a change come into the log exactly once,
        in their order, and only with it.
        """
        ...

    async def claim(self, claims: Sequence[Claim]) -> Sequence[Sequence[Grant] | Conflict]:
        """Lease what is available, for each claim by itself; a Conflict where its `holds` do not.

        Demands are walked in their order, each lane first in line first, until the stamp's limit is
        reached, or the next delivery's `size` would pass its `room` (one is granted in any case), or
        a counter of the demand's `caps` has reached its number in `full_at`. What a granted delivery
        becomes, and what goes into the log with it, is `core.claim.grant`. Less than asked, perhaps;
        one delivery twice, past a counter, or one that is not claimable at the stamp's `now`, never.
        Durable before the answer.
        """
        ...

    async def find(self, keys: Sequence[AnyKey]) -> Sequence[Record | None]:
        """What each key names, as last committed."""
        ...

    async def messages(self, sends: Sequence[str]) -> Sequence[Message | None]:
        """What was sent, by `send`."""
        ...

    async def of_id(self, organization: str | None, id: str) -> Sequence[Delivery]:
        """The newest of an id in every target; None: of every organization."""
        ...

    async def entries(self, kind: str, prefix: str, after: str, limit: int) -> Sequence[Entry]:
        """Entries of a kind whose names begin so, behind a name, in the order of names."""
        ...

    async def scan(self, place: Place, where: Filter, after: str, limit: int) -> Page:
        """Deliveries in a place, by (target, organization, id, generation), from a cursor on ("": all).

        Looks at `limit` rows at the most and says at how many. Slows no other verb.
        """
        ...

    async def due(self, now: int, limit: int) -> Sequence[Delivery]:
        """Leased with a deadline not ahead of `now`, and waiting with an `expires_at` not ahead of it:
        longest over first, then by key."""
        ...

    async def tally(self, target: str, priority: int, after: tuple[int, str], limit: int) -> Tally:
        """Lanes of a target and priority in which something waits, of up to `limit` organizations
        behind `after` (turn, organization), in the order of (turn, organization, confirmed); how many
        organizations have such a lane in all; and every counter whose name begins with the target.

        May be stale. Costs O(lanes), whatever they hold.
        """
        ...

    async def loads(self, targets: Sequence[str]) -> Sequence[Load]:
        """What each target holds. Costs O(lanes): what rests is not counted over again."""
        ...

    async def log(self) -> LogState:
        """What can be read now. A position that is readable stays so until retention takes it."""
        ...

    def read_log(self, shard: int, first: int, last: int) -> AsyncIterator[Sequence[Block]]:
        """Blocks that cover the positions first..last, in order, in pages of bounded size.

        Positions are dense from 1 and never change; none ever appears behind a reader.
        """
        ...

    async def oldest(self, place: Place, target: str, before: int, limit: int) -> Sequence[Grant]:
        """Up to `limit` at rest whose `at` is before, oldest first, each with its message."""
        ...

    async def forget_log(self, shard: int, before: int) -> int:
        """Removes blocks that lie wholly before a position; the earliest that is left."""
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
