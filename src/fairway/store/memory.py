"""The reference store, written to be read: what every other store must do. Gone with its process."""

from __future__ import annotations

import asyncio
from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from uuid import uuid4

from fairway.core import claim as rules
from fairway.core.events import Event, pack
from fairway.core.limits import READ_ROWS
from fairway.core.records import (
    Block,
    Change,
    Claim,
    Conflict,
    Delivery,
    Demand,
    Front,
    Grant,
    Key,
    Lane,
    LogState,
    Message,
    Place,
    ShardState,
)
from fairway.store.guard import holds

Turn = tuple[int, int, str]  # a place in line: (placed, sequence, id)


class MemoryStore:
    """Records in dictionaries, lanes in sorted lists. Each verb is one uninterrupted step."""

    durability = "none"

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._open: dict[Key, Delivery] = {}
        self._rest: dict[Key, list[Delivery]] = defaultdict(list)  # by generation
        self._messages: dict[str, Message] = {}
        self._lanes: dict[str, dict[Lane, list[Turn]]] = defaultdict(dict)
        self._deadlines: list[tuple[int, Key]] = []
        self._blocks: list[Block] = []
        self._latest = 0
        self._identity = uuid4().hex
        self._ready: dict[str, int] = defaultdict(int)
        self._waiters: dict[str, asyncio.Event] = {}

    async def commit(self, changes: Sequence[Change], now: int) -> Sequence[Conflict | None]:
        answers: list[Conflict | None] = []
        for change in changes:
            if holds(change, self._newest, max(now, self._clock())):
                self._apply(change)
                answers.append(None)
            else:
                found = {key: self._newest(key) for key in {p.now.the_key for p in change.puts}}
                answers.append(Conflict(found))
        return answers

    async def claim(self, claims: Sequence[Claim]) -> Sequence[Sequence[Grant]]:
        return [self._claim(claim) for claim in claims]

    async def find(self, keys: Sequence[Key]) -> Sequence[Delivery | None]:
        return [self._newest(key) for key in keys]

    async def messages(self, sends: Sequence[str]) -> Sequence[Message | None]:
        return [self._messages.get(send) for send in sends]

    async def lapsed(self, now: int, limit: int) -> Sequence[Delivery]:
        over = self._deadlines[: bisect_right(self._deadlines, now, key=lambda due: due[0])]
        return [self._open[key] for _, key in over[:limit]]

    async def fronts(self, target: str, limit: int) -> Sequence[Front]:
        lanes = sorted((lane, turns) for lane, turns in self._lanes[target].items() if turns)
        return [Front(lane, turns[0][0]) for lane, turns in lanes[:limit]]

    async def log(self) -> LogState:
        return LogState(self._identity, [ShardState(0, 1, self._latest)])

    async def read_log(self, shard: int, first: int, last: int) -> AsyncIterator[Sequence[Block]]:
        page, rows = list[Block](), 0
        start = bisect_right(self._blocks, first, key=lambda block: block.first) - 1
        for block in self._blocks[max(start, 0) :]:
            if block.first > last:
                break
            if page and rows + block.count > READ_ROWS:
                yield page
                page, rows = [], 0
            page.append(block)
            rows += block.count
        if page:
            yield page

    async def wait(self, target: str, seen: int, timeout: float) -> int:
        if self._ready[target] == seen and timeout > 0:
            waiter = self._waiters.setdefault(target, asyncio.Event())
            try:
                await asyncio.wait_for(waiter.wait(), timeout)
            except TimeoutError:
                pass
        return self._ready[target]

    async def close(self) -> None:
        pass

    # --- one change

    def _apply(self, change: Change) -> None:
        for message in change.messages:
            self._messages[message.send] = message
        for put in change.puts:
            self._take(put.now.the_key)
            self._lay(put.now)
        self._append(change.events)

    def _newest(self, key: Key) -> Delivery | None:
        if key in self._open:
            return self._open[key]
        return self._rest[key][-1] if key in self._rest else None

    def _take(self, key: Key) -> None:
        """The open delivery of a key leaves its place; one at rest stays."""
        delivery = self._open.pop(key, None)
        if delivery is None:
            return
        if delivery.place is Place.WAITING:
            self._lane(delivery).remove(_turn(delivery))
        else:
            self._deadlines.remove((delivery.at, key))

    def _lay(self, delivery: Delivery) -> None:
        key = delivery.the_key
        if delivery.place in (Place.HISTORY, Place.DEAD):
            self._rest[key].append(delivery)
            return
        self._open[key] = delivery
        if delivery.place is Place.LEASED:
            insort(self._deadlines, (delivery.at, key))
            return
        insort(self._lane(delivery), _turn(delivery))
        self._ready[delivery.target] += 1
        waiter = self._waiters.pop(delivery.target, None)
        if waiter is not None:
            waiter.set()

    def _lane(self, delivery: Delivery) -> list[Turn]:
        lane = Lane(delivery.priority, delivery.organization)
        return self._lanes[delivery.target].setdefault(lane, [])

    def _append(self, events: Sequence[Event]) -> None:
        if events:
            self._blocks.append(Block(self._latest + 1, len(events), pack(events)))
            self._latest += len(events)

    # --- one claim

    def _claim(self, claim: Claim) -> list[Grant]:
        stamp, grants, size = claim.stamp, list[Grant](), 0
        for demand in claim.demands:
            for waiting in self._first(demand, stamp.now, stamp.limit - len(grants)):
                size += waiting.size
                if grants and size > stamp.room:
                    break
                key = waiting.the_key
                delivery = rules.leased(waiting, stamp)
                grants.append(Grant(delivery, self._messages[delivery.send]))
                self._take(key)
                self._lay(delivery)
        self._append([rules.event(grant.delivery, stamp) for grant in grants])
        return grants

    def _first(self, demand: Demand, now: int, room: int) -> list[Delivery]:
        """The first in line of a lane that are available, in order."""
        found: list[Delivery] = []
        for placed, _, id_ in self._lanes[demand.target].get(demand.lane, []):
            if placed > now or len(found) >= min(demand.limit, room):
                break
            delivery = self._open[Key(demand.target, demand.lane.organization, id_)]
            if delivery.at <= now:
                found.append(delivery)
        return found


def _turn(delivery: Delivery) -> Turn:
    return (delivery.placed, delivery.sequence, delivery.id)
