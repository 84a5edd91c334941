"""The one thread of a process that commits: what gathers during a commit shares the next."""

from __future__ import annotations

import asyncio
import fcntl
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

import apsw

from fairway.core.errors import FairwayError, StoreUnavailable
from fairway.core.events import Event, pack

T = TypeVar("T")
SHARED = 256  # works in one transaction; bounds how long the first of them waits for the last


LaneKey = tuple[str, int, int, str, str]  # target, and the lane
Counts = tuple[int, int, int]  # waiting, leased, bytes
Kept = tuple[int, dict[LaneKey, Counts], dict[str, int], dict[tuple[str, int], int]]


class Transaction:
    """One transaction under way, with the events that will be its block of the log, and the counts
    that it changes: gathered here, written once at its end."""

    def __init__(self, db: apsw.Connection) -> None:
        self.db = db
        self.events: list[Event] = []
        self.readied: set[str] = set()  # targets in which something may have become claimable
        self.lanes: dict[LaneKey, Counts] = {}  # what is more than it was
        self._counters: dict[str, int] = {}
        self._resting: dict[tuple[str, int], int] = {}

    def at_rest(self, target: str, place: int, more: int) -> None:
        self._resting[target, place] = self._resting.get((target, place), 0) + more

    def in_lane(self, lane: LaneKey, waiting: int, leased: int, size: int) -> None:
        before = self.lanes.get(lane, (0, 0, 0))
        self.lanes[lane] = (before[0] + waiting, before[1] + leased, before[2] + size)

    def counter(self, name: str) -> int:
        if name not in self._counters:
            sql = "select value from counter where name = ?"
            self._counters[name] = self.db.execute(sql, (name,)).get or 0
        return self._counters[name]

    def count(self, names: Sequence[str], by: int) -> None:
        for name in names:
            self._counters[name] = self.counter(name) + by

    def kept(self) -> Kept:
        """To come back to when a work fails."""
        return len(self.events), dict(self.lanes), dict(self._counters), dict(self._resting)

    def back_to(self, kept: Kept) -> None:
        del self.events[kept[0] :]
        _, self.lanes, self._counters, self._resting = kept

    def write_counts(self) -> None:
        changed = [(*lane, *by) for lane, by in self.lanes.items() if any(by)]
        self.db.executemany(
            "insert into lane values (?, ?, ?, ?, ?, ?, ?, ?) on conflict do update "
            "set waiting = waiting + excluded.waiting, leased = leased + excluded.leased, "
            "bytes = bytes + excluded.bytes",
            changed,
        )
        self.db.executemany(
            "delete from lane where target = ? and priority = ? and turn = ? and organization = ? "
            "and confirmed = ? and waiting = 0 and leased = 0",
            [row[:5] for row in changed],
        )
        self.db.executemany(
            "insert into resting values (?, ?, ?) on conflict do update "
            "set count = count + excluded.count",
            [(target, int(place), more) for (target, place), more in self._resting.items() if more],
        )
        self.db.executemany(
            "insert into counter values (?, ?) on conflict do update set value = excluded.value",
            list(self._counters.items()),
        )


Work = Callable[[Transaction], Any]


class Writer:
    """Runs works as they came. Each is all or nothing; none is answered before the sync."""

    def __init__(
        self, db: apsw.Connection, lock: int, committed: Callable[[set[str], int], None]
    ) -> None:
        self._db = db
        self._lock = lock
        self._committed = committed
        self._works: deque[tuple[Work, Future[Any]]] = deque()
        self._some = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="fairway-writer", daemon=True)
        self._thread.start()

    async def do(self, work: Callable[[Transaction], T]) -> T:
        answer: Future[T] = Future()
        with self._some:
            if self._closing:
                raise StoreUnavailable("this store was closed")
            self._works.append((work, answer))
            self._some.notify()
        # What was handed over runs, whether the caller still waits or not.
        return await asyncio.shield(asyncio.wrap_future(answer))

    def close(self) -> None:
        """Finishes what was asked, then ends the thread."""
        with self._some:
            if self._closing:
                return
            self._closing = True
            self._some.notify()
        self._thread.join()
        self._db.close()
        os.close(self._lock)

    def _run(self) -> None:
        while True:
            with self._some:
                while not self._works and not self._closing:
                    self._some.wait()
                if not self._works:
                    return
                taken = [self._works.popleft() for _ in range(min(SHARED, len(self._works)))]
            self._commit(taken)

    def _commit(self, taken: list[tuple[Work, Future[Any]]]) -> None:
        transaction = Transaction(self._db)
        answers: list[tuple[Future[Any], Any, Exception | None]] = []
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            try:
                self._db.execute("begin immediate")
                for work, answer in taken:
                    answers.append((answer, *self._one(transaction, work)))
                transaction.write_counts()
                self._append(transaction.events)
                self._db.execute("commit")
            finally:
                if self._db.in_transaction:
                    self._db.execute("rollback")
                fcntl.flock(self._lock, fcntl.LOCK_UN)
        except (apsw.Error, OSError) as error:
            for _, answer in taken:
                answer.set_exception(unavailable("write", error))
            return
        self._committed(transaction.readied, len(transaction.events))
        for answer, result, error in answers:
            if error is None:
                answer.set_result(result)
            else:
                answer.set_exception(error)

    def _one(self, transaction: Transaction, work: Work) -> tuple[Any, Exception | None]:
        """A work that fails leaves nothing, and spoils no other work of its transaction."""
        kept = transaction.kept()
        self._db.execute("savepoint work")
        try:
            result = work(transaction)
        except (apsw.FullError, apsw.IOError):
            raise  # the disk's trouble is everybody's
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the caller's answer
            self._db.execute("rollback to work")
            transaction.back_to(kept)
            return None, unavailable("write", error) if isinstance(error, apsw.Error) else error
        finally:
            if self._db.in_transaction:
                self._db.execute("release work")
        return result, None

    def _append(self, events: list[Event]) -> None:
        if not events:
            return
        first = self._db.execute(
            "update identity set latest = latest + ? returning latest", (len(events),)
        ).get
        first = first - len(events) + 1
        self._db.execute("insert into log values (?, ?, ?)", (first, len(events), pack(events)))


def unavailable(verb: str, error: Exception) -> FairwayError:
    return StoreUnavailable(f"the store could not {verb}: {error}")
