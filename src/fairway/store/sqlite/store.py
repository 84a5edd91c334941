"""The verbs of the contract on one SQLite file."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import apsw

from fairway.core import claim as rules
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
from fairway.store.sqlite.rows import (
    COLUMNS,
    MARKS,
    TABLES,
    delivery_of,
    message_of,
    message_row,
    row_of,
)
from fairway.store.sqlite.schema import connect, lock_file, prepared
from fairway.store.sqlite.writer import Transaction, Writer, unavailable

T = TypeVar("T")
LOOK_EVERY = 0.025  # s; how often a waiting receive looks for what other processes committed
BLOCKS_READ = 256  # blocks fetched in one look at the log

_OPEN = "where target = ? and organization = ? and id = ?"
_FIND = (
    f"select {COLUMNS} from waiting {_OPEN}",
    f"select {COLUMNS} from leased {_OPEN}",
    f"select {COLUMNS} from rest {_OPEN} order by generation desc limit 1",
)
_INSERT = {
    place: f"insert into {table} ({COLUMNS}) values ({MARKS})" for place, table in TABLES.items()
}
_DELETE = {
    Place.WAITING: (
        "delete from waiting where target = ? and priority = ? and organization = ? "
        "and placed = ? and sequence = ? and id = ?"
    ),
    Place.LEASED: f"delete from leased {_OPEN}",
}
_FIRST = (
    f"select {COLUMNS} from waiting where target = ? and priority = ? and organization = ? "
    "and placed <= ?4 and at <= ?4 order by placed, sequence, id limit ?5"
)
_FRONT = (
    "select priority, organization, at from waiting where target = ? "
    "and (priority, organization) > (?, ?) order by priority, organization, placed limit 1"
)


class SqliteStore:
    """Writes on the writer's thread, reads on another; several processes may hold one file open."""

    durability = "sync"

    def __init__(self, path: str, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        lock = lock_file(path)
        db = prepared(path, lock)
        self._writer = Writer(db, lock, self._committed)
        self._reading = connect(path)
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="fairway-reader")
        self._ready: dict[str, int] = defaultdict(int)
        self._waiters: dict[str, asyncio.Event] = {}
        self._appended = (
            0  # events that this process wrote: what more the log holds came from others
        )
        self._foreign = 0
        self._look: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, path: str, clock: Callable[[], int]) -> SqliteStore:
        return cls(path, clock)

    # --- the verbs

    async def commit(self, changes: Sequence[Change], now: int) -> Sequence[Conflict | None]:
        return await self._writer.do(lambda t: [self._change(t, change, now) for change in changes])

    async def claim(self, claims: Sequence[Claim]) -> Sequence[Sequence[Grant]]:
        return await self._writer.do(lambda t: [_claim(t, claim) for claim in claims])

    async def find(self, keys: Sequence[Key]) -> Sequence[Delivery | None]:
        return await self._read(lambda: [_newest(self._reading, key) for key in keys])

    async def messages(self, sends: Sequence[str]) -> Sequence[Message | None]:
        return await self._read(lambda: [_message(self._reading, send) for send in sends])

    async def lapsed(self, now: int, limit: int) -> Sequence[Delivery]:
        sql = f"select {COLUMNS} from leased where at <= ? order by at, target, organization, id limit ?"
        return await self._read(
            lambda: [delivery_of(row) for row in self._reading.execute(sql, (now, limit))]
        )

    async def fronts(self, target: str, limit: int) -> Sequence[Front]:
        return await self._read(lambda: _fronts(self._reading, target, limit))

    async def log(self) -> LogState:
        sql = "select log, earliest, latest from identity"
        log, earliest, latest = await self._read(lambda: self._reading.execute(sql).get)
        return LogState(log, [ShardState(0, earliest, latest)])

    async def read_log(self, shard: int, first: int, last: int) -> AsyncIterator[Sequence[Block]]:
        page, rows = list[Block](), 0
        sql = (
            "select first, count, data from log where first <= ?2 and first >= "
            "coalesce((select max(first) from log where first <= ?1), 0) order by first limit ?3"
        )
        while first <= last:
            span = (first, last, BLOCKS_READ)
            found = await self._read(lambda span=span: list(self._reading.execute(sql, span)))
            if not found:
                break
            for block in (Block(*row) for row in found):
                if page and rows + block.count > READ_ROWS:
                    yield page
                    page, rows = [], 0
                page.append(block)
                rows += block.count
                first = block.first + block.count
        if page:
            yield page

    async def wait(self, target: str, seen: int, timeout: float) -> int:
        if self._number(target) == seen and timeout > 0:
            waiter = self._waiters.setdefault(target, asyncio.Event())
            if self._look is None or self._look.done():
                self._look = asyncio.create_task(self._look_for_others())
            try:
                await asyncio.wait_for(waiter.wait(), timeout)
            except TimeoutError:
                pass
        return self._number(target)

    async def close(self) -> None:
        if self._look is not None:
            self._look.cancel()
        await asyncio.to_thread(self._writer.close)
        self._reader.shutdown()
        self._reading.close()

    # --- on the reader's thread

    async def _read(self, work: Callable[[], T]) -> T:
        try:
            return await self._loop.run_in_executor(self._reader, work)
        except apsw.Error as error:
            raise unavailable("read", error) from None

    # --- what may be ready

    def _number(self, target: str) -> int:
        return self._ready[target] + self._foreign

    def _committed(self, readied: set[str], events: int) -> None:
        """On the writer's thread, after the sync."""
        self._appended += events
        if readied:
            self._loop.call_soon_threadsafe(self._wake, readied)

    def _wake(self, targets: set[str]) -> None:
        for target in targets:
            self._ready[target] += 1
            waiter = self._waiters.pop(target, None)
            if waiter is not None:
                waiter.set()

    async def _look_for_others(self) -> None:
        """While somebody waits: events in the log that this process did not write."""
        others = await self._others()
        while self._waiters:
            await asyncio.sleep(LOOK_EVERY)
            now = await self._others()
            if now != others:
                others = now
                self._foreign += 1
                self._wake(set(self._waiters))

    async def _others(self) -> int:
        before = self._appended
        return (await self.log()).shards[0].latest - before

    # --- on the writer's thread, inside its transaction

    def _change(self, t: Transaction, change: Change, now: int) -> Conflict | None:
        if not holds(change, lambda key: _newest(t.db, key), max(now, self._clock())):
            keys = {put.now.the_key for put in change.puts}
            return Conflict({key: _newest(t.db, key) for key in keys})
        for message in change.messages:
            t.db.execute(
                "insert into message (send, facts, body) values (?, ?, ?)", message_row(message)
            )
        for put in change.puts:
            if put.was is not None:
                _take(t.db, put.was)
            _lay(t, put.now)
        t.events.extend(change.events)
        return None


def _newest(db: apsw.Connection, key: Key) -> Delivery | None:
    for sql in _FIND:
        for row in db.execute(sql, (key.target, key.organization, key.id)):
            return delivery_of(row)
    return None


def _message(db: apsw.Connection, send: str) -> Message | None:
    for facts, body in db.execute("select facts, body from message where send = ?", (send,)):
        return message_of(facts, body)
    return None


def _fronts(db: apsw.Connection, target: str, limit: int) -> list[Front]:
    """One step of the index for each lane, whatever the lane holds."""
    fronts: list[Front] = []
    after = (-1, "")
    while len(fronts) < limit:
        row = db.execute(_FRONT, (target, *after)).get
        if row is None:
            break
        fronts.append(Front(Lane(row[0], row[1]), row[2]))
        after = (row[0], row[1])
    return fronts


def _take(db: apsw.Connection, was: Delivery) -> None:
    """An open delivery leaves its place; one at rest stays."""
    if was.place is Place.WAITING:
        db.execute(_DELETE[Place.WAITING], row_of(was)[:6])
    elif was.place is Place.LEASED:
        db.execute(_DELETE[Place.LEASED], (was.target, was.organization, was.id))


def _lay(t: Transaction, delivery: Delivery) -> None:
    t.db.execute(_INSERT[delivery.place], row_of(delivery))
    if delivery.place is Place.WAITING:
        t.readied.add(delivery.target)


def _claim(t: Transaction, claim: Claim) -> list[Grant]:
    stamp, grants, size = claim.stamp, list[Grant](), 0
    for demand in claim.demands:
        room = min(demand.limit, stamp.limit - len(grants))
        if room <= 0:
            continue
        for waiting in _first(t.db, demand, stamp.now, room):
            size += waiting.size
            if grants and size > stamp.room:
                break
            delivery = rules.leased(waiting, stamp)
            _take(t.db, waiting)
            _lay(t, delivery)
            message = _message(t.db, delivery.send)
            assert message is not None
            grants.append(Grant(delivery, message))
    t.events.extend(rules.event(grant.delivery, stamp) for grant in grants)
    return grants


def _first(db: apsw.Connection, demand: Demand, now: int, room: int) -> list[Delivery]:
    lane = demand.lane
    values = (demand.target, lane.priority, lane.organization, now, room)
    return [delivery_of(row) for row in db.execute(_FIRST, values)]
