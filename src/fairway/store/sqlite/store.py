"""The verbs of the contract on one SQLite file."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import apsw

from fairway.core.limits import READ_ROWS
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
    ShardState,
    Tally,
)
from fairway.store.sqlite import reads, writes
from fairway.store.sqlite.schema import connect, lock_file, prepared
from fairway.store.sqlite.writer import Writer, unavailable

T = TypeVar("T")
LOOK_EVERY = 0.025  # s; how often a waiting receive looks for what other processes committed
BLOCKS_READ = 256  # blocks fetched in one look at the log


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
        self._appended = 0  # events that this process wrote: what more the log holds is others'
        self._foreign = 0
        self._look: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, path: str, clock: Callable[[], int]) -> SqliteStore:
        return cls(path, clock)

    async def commit(self, changes: Sequence[Change], now: int) -> Sequence[Conflict | None]:
        def work(t: writes.Transaction) -> list[Conflict | None]:
            latest = max(now, self._clock())
            return [writes.change(t, change, latest) for change in changes]

        return await self._writer.do(work)

    async def claim(self, claims: Sequence[Claim]) -> Sequence[Sequence[Grant] | Conflict]:
        return await self._writer.do(lambda t: [writes.claim(t, claim) for claim in claims])

    async def find(self, keys: Sequence[AnyKey]) -> Sequence[Record | None]:
        return await self._read(lambda db: [reads.record(db, key) for key in keys])

    async def messages(self, sends: Sequence[str]) -> Sequence[Message | None]:
        return await self._read(lambda db: [reads.message(db, send) for send in sends])

    async def of_id(self, organization: str | None, id: str) -> Sequence[Delivery]:
        return await self._read(lambda db: reads.of_id(db, organization, id))

    async def entries(self, kind: str, prefix: str, after: str, limit: int) -> Sequence[Entry]:
        return await self._read(lambda db: reads.entries(db, kind, prefix, after, limit))

    async def scan(self, place: Place, where: Filter, after: str, limit: int) -> Page:
        return await self._read(lambda db: reads.scan(db, place, where, after, limit))

    async def due(self, now: int, limit: int) -> Sequence[Delivery]:
        return await self._read(lambda db: reads.due(db, now, limit))

    async def tally(self, target: str, priority: int, after: tuple[int, str], limit: int) -> Tally:
        return await self._read(lambda db: reads.tally(db, target, priority, after, limit))

    async def loads(self, targets: Sequence[str]) -> Sequence[Load]:
        return await self._read(lambda db: [reads.load(db, target) for target in targets])

    async def log(self) -> LogState:
        sql = "select log, earliest, latest from identity"
        log, earliest, latest = await self._read(lambda db: db.execute(sql).get)
        return LogState(log, [ShardState(0, earliest, latest)])

    async def read_log(self, shard: int, first: int, last: int) -> AsyncIterator[Sequence[Block]]:
        page, rows = list[Block](), 0
        while first <= last:
            span = (first, last, BLOCKS_READ)
            found = await self._read(lambda db, span=span: reads.blocks(db, *span))
            if not found or found[-1].first + found[-1].count <= first:
                break  # the log ends before `last`
            for block in found:
                if page and rows + block.count > READ_ROWS:
                    yield page
                    page, rows = [], 0
                page.append(block)
                rows += block.count
                first = block.first + block.count
        if page:
            yield page

    async def oldest(self, place: Place, target: str, before: int, limit: int) -> Sequence[Grant]:
        return await self._read(lambda db: reads.oldest(db, place, target, before, limit))

    async def forget_log(self, shard: int, before: int) -> int:
        return await self._writer.do(lambda t: writes.forget_log(t, before))

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

    async def _read(self, work: Callable[[apsw.Connection], T]) -> T:
        try:
            return await self._loop.run_in_executor(self._reader, work, self._reading)
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
