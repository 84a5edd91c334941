"""The reference store, written to be read: what every other store must do. Gone with its process."""

from __future__ import annotations

import asyncio
from bisect import bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from uuid import uuid4

from msgspec.structs import replace

from fairway.core import claim as rules
from fairway.core.events import Event, pack
from fairway.core.limits import READ_ROWS
from fairway.core.records import (
    AnyKey,
    Block,
    Change,
    Claim,
    Conflict,
    Delivery,
    Demand,
    Entry,
    EntryKey,
    Filter,
    Front,
    Grant,
    Key,
    Lane,
    Load,
    LogState,
    Message,
    Page,
    Place,
    Put,
    Record,
    Removal,
    ShardState,
    Stamp,
    Tally,
)
from fairway.store.guard import AT_REST, holds, named
from fairway.store.picks import picks

Turn = tuple[int, int, str]  # a place in line: (placed, sequence, id)
Due = tuple[int, Key]


class MemoryStore:
    """Records in dictionaries, lanes in sorted lists. Each verb is one uninterrupted step."""

    durability = "none"

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._open: dict[Key, Delivery] = {}
        self._rest: dict[Key, dict[int, Delivery]] = defaultdict(dict)  # by generation
        self._entries: dict[EntryKey, Entry] = {}
        self._messages: dict[str, Message] = {}
        self._pointed: Counter[str] = Counter()  # deliveries that point to a message
        self._lanes: dict[str, dict[Lane, list[Turn]]] = defaultdict(dict)
        self._leased: Counter[tuple[str, Lane]] = Counter()
        self._counters: Counter[str] = Counter()
        self._due: list[Due] = []
        self._blocks: list[Block] = []
        self._latest = 0
        self._identity = uuid4().hex
        self._ready: dict[str, int] = defaultdict(int)
        self._waiters: dict[str, asyncio.Event] = {}

    async def commit(self, changes: Sequence[Change], now: int) -> Sequence[Conflict | None]:
        answers: list[Conflict | None] = []
        for change in changes:
            if holds(change, self._find, max(now, self._clock())):
                self._apply(change)
                answers.append(None)
            else:
                answers.append(self._conflict(change))
        return answers

    async def claim(self, claims: Sequence[Claim]) -> Sequence[Sequence[Grant] | Conflict]:
        return [self._claim(claim) for claim in claims]

    async def find(self, keys: Sequence[AnyKey]) -> Sequence[Record | None]:
        return [self._find(key) for key in keys]

    async def messages(self, sends: Sequence[str]) -> Sequence[Message | None]:
        return [self._messages.get(send) for send in sends]

    async def of_id(self, organization: str | None, id: str) -> Sequence[Delivery]:
        keys = {
            key
            for key in (*self._open, *self._rest)
            if key.id == id and organization in (None, key.organization)
        }
        found = [self._newest(key) for key in sorted(keys)]
        return [delivery for delivery in found if delivery is not None]

    async def entries(self, kind: str, prefix: str, after: str, limit: int) -> Sequence[Entry]:
        found = sorted(
            key.name
            for key in self._entries
            if key.kind == kind and key.name.startswith(prefix) and key.name > after
        )
        return [self._entries[EntryKey(kind, name)] for name in found[:limit]]

    async def scan(self, place: Place, where: Filter, after: str, limit: int) -> Page:
        rows = sorted(self._in(place), key=cursor_key)
        rows = [row for row in rows if cursor_of(row) > after] if after else rows
        found = [row for row in rows[:limit] if picks(row, self._messages.get(row.send), where)]
        more = cursor_of(rows[limit - 1]) if len(rows) > limit else None
        return Page(found, min(limit, len(rows)), more)

    async def due(self, now: int, limit: int) -> Sequence[Delivery]:
        over = self._due[: bisect_right(self._due, now, key=lambda due: due[0])]
        return [self._open[key] for _, key in over[:limit]]

    async def tally(self, target: str, priority: int, after: tuple[int, str], limit: int) -> Tally:
        lanes = sorted(
            lane
            for lane, turns in self._lanes[target].items()
            if turns and lane.priority == priority
        )
        organizations = list(dict.fromkeys((lane.turn, lane.organization) for lane in lanes))
        page = [one for one in organizations if one > after][:limit]
        fronts = [self._front(target, la) for la in lanes if (la.turn, la.organization) in page]
        mine = f"{target}\n"
        counters = {n: c for n, c in self._counters.items() if n.startswith(mine) and c}
        return Tally(fronts, len(organizations), counters)

    async def loads(self, targets: Sequence[str]) -> Sequence[Load]:
        return [self._load(target) for target in targets]

    async def log(self) -> LogState:
        earliest = self._blocks[0].first if self._blocks else self._latest + 1
        return LogState(self._identity, [ShardState(0, earliest, self._latest)])

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

    async def oldest(self, place: Place, target: str, before: int, limit: int) -> Sequence[Grant]:
        old = [d for d in self._in(place) if d.target == target and d.at < before]
        old.sort(key=lambda d: (d.at, cursor_key(d)))
        return [Grant(delivery, self._messages[delivery.send]) for delivery in old[:limit]]

    async def forget_log(self, shard: int, before: int) -> int:
        while self._blocks and self._blocks[0].first + self._blocks[0].count <= before:
            self._blocks.pop(0)
        return self._blocks[0].first if self._blocks else self._latest + 1

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

    # --- looking

    def _load(self, target: str) -> Load:
        queued = [d for d in self._open.values() if d.target == target]
        resting = Counter(
            row.place
            for key, generations in self._rest.items()
            if key.target == target
            for row in generations.values()
        )
        size = sum(d.size for d in queued)
        return Load(len(queued), size, resting[Place.HISTORY], resting[Place.DEAD])

    def _find(self, key: AnyKey) -> Record | None:
        if isinstance(key, EntryKey):
            return self._entries.get(key)
        if not key.generation:
            return self._newest(key)
        newest_key = replace(key, generation=0)
        opened = self._open.get(newest_key)
        if opened is not None and opened.generation == key.generation:
            return opened
        return self._rest.get(newest_key, {}).get(key.generation)

    def _newest(self, key: Key) -> Delivery | None:
        if key in self._open:
            return self._open[key]
        generations = self._rest.get(key)
        return generations[max(generations)] if generations else None

    def _conflict(self, change: Change) -> Conflict:
        return Conflict({key: self._find(key) for key in named(change)})

    def _in(self, place: Place) -> list[Delivery]:
        everything = (
            *self._open.values(),
            *(row for generations in self._rest.values() for row in generations.values()),
        )
        return [row for row in everything if row.place is place]

    def _front(self, target: str, lane: Lane) -> Front:
        turns = self._lanes[target].get(lane, [])
        first = self._open[Key(target, lane.organization, turns[0][2])].at if turns else None
        return Front(lane, len(turns), self._leased[target, lane], first)

    # --- one change

    def _apply(self, change: Change) -> None:
        for message in change.messages:
            self._messages[message.send] = message
        for put in change.puts:
            if isinstance(put.now, Entry):
                self._entries[put.now.the_key] = put.now
            else:
                self._move(put, put.now)
        for removal in change.removes:
            self._remove(removal)
        for put in change.puts:
            if put.forgets is not None:
                self._forget(put.forgets)
        self._append(change.events)

    def _move(self, put: Put, now: Delivery) -> None:
        was = put.was
        assert not isinstance(was, Entry)
        if not put.beside and was is not None:
            if was.place not in AT_REST:
                self._take(was)
            elif was.generation == now.generation:
                del self._rest[was.the_key][was.generation]
        if was is None or was.generation != now.generation:
            self._pointed[now.send] += 1
        self._lay(now)

    def _take(self, delivery: Delivery) -> None:
        """An open delivery leaves its place."""
        key, lane = delivery.the_key, lane_of(delivery)
        del self._open[key]
        self._due.remove((due_at(delivery), key))
        if delivery.place is Place.WAITING:
            self._lanes[delivery.target][lane].remove(turn_of(delivery))
            return
        self._leased[delivery.target, lane] -= 1
        self._counters.subtract(delivery.counted)
        self._wake(delivery.target)  # a counter may have room now

    def _lay(self, delivery: Delivery) -> None:
        key, lane = delivery.the_key, lane_of(delivery)
        if delivery.place in AT_REST:
            self._rest[key][delivery.generation] = delivery
            return
        self._open[key] = delivery
        insort(self._due, (due_at(delivery), key))
        if delivery.place is Place.LEASED:
            self._leased[delivery.target, lane] += 1
            self._counters.update(delivery.counted)
            return
        insort(self._lanes[delivery.target].setdefault(lane, []), turn_of(delivery))
        self._wake(delivery.target)

    def _wake(self, target: str) -> None:
        self._ready[target] += 1
        waiter = self._waiters.pop(target, None)
        if waiter is not None:
            waiter.set()

    def _forget(self, send: str) -> None:
        """One less needs the body; without anyone it goes, and the message when none points to it."""
        message = self._messages[send]
        left = message.holders - 1
        self._messages[send] = replace(
            message, holders=left, body=message.body if left > 0 else None
        )
        self._tidy(send)

    def _tidy(self, send: str) -> None:
        """A message goes when nothing points to it and nobody needs it."""
        if not self._pointed[send] and self._messages[send].holders <= 0:
            del self._pointed[send], self._messages[send]

    def _remove(self, removal: Removal) -> None:
        gone = removal.gone
        if isinstance(gone, Entry):
            del self._entries[gone.the_key]
        else:
            generations = self._rest[gone.the_key]
            del generations[gone.generation]
            if not generations:
                del self._rest[gone.the_key]
            self._pointed[gone.send] -= 1
            self._tidy(gone.send)
        if removal.forgets is not None:
            self._forget(removal.forgets)

    def _append(self, events: Sequence[Event]) -> None:
        if events:
            self._blocks.append(Block(self._latest + 1, len(events), pack(events)))
            self._latest += len(events)

    # --- one claim

    def _claim(self, claim: Claim) -> list[Grant] | Conflict:
        if not holds(Change((), (), holds=claim.holds), self._find, 0):
            return Conflict({key: self._find(key) for key, _ in claim.holds})
        grants, events, size = list[Grant](), list[Event](), 0
        for demand in claim.demands:
            for waiting in self._first(demand, claim.stamp, len(grants)):
                size += waiting.size
                if grants and size > claim.stamp.room:
                    break
                if any(self._is_full(name, claim.stamp) for name in demand.caps):
                    break
                granted, told = rules.grant(waiting, demand, claim.stamp)
                self._take(waiting)
                self._lay(granted)
                grants.append(Grant(granted, self._messages[granted.send]))
                events += told
        self._append(events)
        return grants

    def _is_full(self, counter: str, stamp: Stamp) -> bool:
        return counter in stamp.full_at and self._counters[counter] >= stamp.full_at[counter]

    def _first(self, demand: Demand, stamp: Stamp, granted: int) -> list[Delivery]:
        """The first in line of a lane that are available, in order."""
        found: list[Delivery] = []
        room = min(demand.limit, stamp.limit - granted)
        for placed, _, id_ in self._lanes[demand.target].get(demand.lane, []):
            if placed > stamp.now or len(found) >= room:
                break
            delivery = self._open[Key(demand.target, demand.lane.organization, id_)]
            if delivery.at <= stamp.now:
                found.append(delivery)
        return found


def lane_of(d: Delivery) -> Lane:
    return Lane(d.priority, d.turn, d.organization, d.confirmed)


def turn_of(d: Delivery) -> Turn:
    return (d.placed, d.sequence, d.id)


def due_at(d: Delivery) -> int:
    return d.at if d.place is Place.LEASED else d.expires_at


def cursor_key(d: Delivery) -> tuple[str, str, str, int]:
    return (d.target, d.organization, d.id, d.generation)


def cursor_of(d: Delivery) -> str:
    return f"{d.target}\n{d.organization}\n{d.id}\n{d.generation:012d}"
