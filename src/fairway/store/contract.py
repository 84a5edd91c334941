"""What a store promises. It compares, moves and counts; it knows no rule.

Every verb takes many and answers each, in their order. Instants are integers of µs.

Records (`fairway.core.records`), what a store has to know of them, and who may remove them:

  Delivery   key (target, organization, id). At most one of a key is open (place WAITING or LEASED);
             any number is at rest (HISTORY, DEAD), one for each `generation`. "The newest" is the
             open one, else the one at rest with the largest generation; a key that names a
             generation means just that one. Places are kept apart, so that no verb slows down as
             those at rest grow. `lease` and `memo` are the core's own: kept and given back as they
             came (a scan may ask for `memo.reason`). One that waits is claimable once neither
             `placed` nor `at` is ahead of now, in the order (placed, sequence, id) of its lane; the
             core never puts an older `placed` beside a later `at`. Goes from rest alone, by `removes`.
  Message    key `send`, never used twice. Written with the first delivery that points to it.
             `holders` says how many need its body: deliveries, and what the core keeps parked. A put
             or a removal that `forgets` it counts down; at 0 the body becomes null. The rest of it
             goes when nothing points to it and `holders` is 0. A put never changes a delivery's `send`.
  Entry      key (kind, name); bytes that the core understands. Written by puts, removed by `removes`.
  Event      what happened; the store packs the events of a change (core/events.py) and gives them
             positions from 1 on. Never changed. One shard, number 0, is enough.
  Counter    a name and a number: how many leased deliveries have that name in `counted`. Made and
             changed by the store itself whenever a delivery enters or leaves LEASED; one at 0 is none.
  Lane       (target, priority, turn, organization, confirmed), compared whole; a turn belongs to one
             organization. The store counts how many wait and are leased in each.
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
        """Each change by itself: all of it or nothing, durable before the answer. In their order: a
        later one sees what an earlier one did.

        What a put needs (`was`), and what it does:

          None                      nothing open, none at rest: `now` is the newest
          None, and `beside`        no such generation in any place: `now` rests; the open one stays
          open                      the newest, of the same version: `now` takes its place
          at rest, `now` newer      the newest, of the same version: it stays at rest beside `now`
          at rest, same generation  as before, but `now` takes its place
          an entry                  of the same version (None: absent): `now` takes its place

        "The same version" is version, generation, place and token. Over a leased one `hold` may ask
        that `at` is ahead of the later of `now` and the store's own clock (RUNS), or is not (OVER).
        The puts of a change are taken in their order; a later one of a key compares with what the one
        before wrote (not `beside`). `holds` names entries that must have just that version (0:
        absent); `removes` entries and versions at rest that must have their version, and go. These are
        judged as things were before the change. No two changes of one call write the same key.

        If a part does not hold, nothing of its change happens, and the conflict brings what every key
        that the change names is now, whether that part held or not (None: absent; a delivery by its
        key without generation, a removal with it). The events of a change come into the log exactly
        once, in their order, and only with it.
        """
        ...

    async def claim(self, claims: Sequence[Claim]) -> Sequence[Sequence[Grant] | Conflict]:
        """Lease what is available, for each claim by itself; a Conflict where its `holds` do not.

        Demands are walked in their order, each lane first in line first. A demand ends at its limit,
        or when a counter of its `caps` has reached its number in `full_at` (one that is not named
        there has no bound; what this claim granted counts). The whole walk ends at the stamp's limit,
        or before a delivery whose `size` would pass its `room` (one is granted in any case).

        `core.claim.grant(delivery, demand, stamp)` says what a granted one becomes, and its events
        for the log; it may come to rest at once, and still needs its body. Less than asked, perhaps;
        one delivery twice, past a counter, or one that is not claimable at the stamp's `now`, never.
        `expires_at` is not looked at. Durable before the answer.
        """
        ...

    async def find(self, keys: Sequence[AnyKey]) -> Sequence[Record | None]:
        """What each key names, as last committed."""
        ...

    async def messages(self, sends: Sequence[str]) -> Sequence[Message | None]:
        """What was sent, by `send`."""
        ...

    async def of_id(self, organization: str | None, id: str) -> Sequence[Delivery]:
        """The newest of an id in every target, at rest too, by (target, organization); None: of every
        organization."""
        ...

    async def entries(self, kind: str, prefix: str, after: str, limit: int) -> Sequence[Entry]:
        """Entries of a kind whose names begin so, behind a name, in the order of names."""
        ...

    async def scan(self, place: Place, where: Filter, after: str, limit: int) -> Page:
        """Deliveries in a place, by (target, organization, id, generation), from a cursor on ("": all).

        Looks at `limit` rows at the most, and says at how many, whether they fit or not; `after` None
        in the page is the end. Object, key and topic (a plain prefix of any) are the message's;
        `since` is within, `until` is not. Slows no other verb.
        """
        ...

    async def due(self, now: int, limit: int) -> Sequence[Delivery]:
        """Leased with a deadline not ahead of `now`, and waiting with an `expires_at` not ahead of it:
        longest over first, then by (target, organization, id)."""
        ...

    async def tally(self, target: str, priority: int, after: tuple[int, str], limit: int) -> Tally:
        """Lanes of a target and priority in which something waits, of up to `limit` organizations
        behind `after` (turn, organization), in the order of (turn, organization, confirmed), all lanes
        of an organization or none; `available_at` is `at` of the first in line. How many
        organizations have such a lane in all. And every counter whose name begins with the target
        and a line break.

        A store with others beside it may answer a little late. Costs O(lanes), whatever they hold.
        """
        ...

    async def loads(self, targets: Sequence[str]) -> Sequence[Load]:
        """What each target holds. Costs O(lanes): what rests is not counted over again."""
        ...

    async def log(self) -> LogState:
        """What can be read now. A position that is readable stays so until retention takes it."""
        ...

    def read_log(self, shard: int, first: int, last: int) -> AsyncIterator[Sequence[Block]]:
        """Blocks that cover the positions first..last, in order, in pages of bounded size; the first
        and the last block may hold more. Ends with the log.

        Positions are dense from 1 and never change; none ever appears behind a reader.
        """
        ...

    async def oldest(self, place: Place, target: str, before: int, limit: int) -> Sequence[Grant]:
        """Up to `limit` of a place at rest whose `at` is before, oldest first, then by (organization,
        id, generation), each with its message."""
        ...

    async def forget_log(self, shard: int, before: int) -> int:
        """Removes blocks that lie wholly before a position; the earliest that is left, else the next
        that will be given."""
        ...

    async def wait(self, target: str, seen: int, timeout: float) -> int:
        """Returns another number (≥ 0) than `seen` once something may have become ready in `target`:
        a delivery came to wait, or a lease ended and with it a counter has room. Not as time passes.

        A hint: it may come too often, and after `timeout` seconds it comes anyway, perhaps with the
        same number. A number is taken before looking (`seen` −1: the one of now, at once), so nothing
        is missed in between.
        """
        ...

    async def close(self) -> None:
        """Ends what the store started. What was answered stays done; a second time does nothing."""
        ...
