"""The one thread of a process that commits: what gathers during a commit shares the next."""

from __future__ import annotations

import asyncio
import fcntl
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

import apsw

from fairway.core.errors import FairwayError, StoreUnavailable
from fairway.core.events import Event, pack

T = TypeVar("T")
SHARED = 256  # works in one transaction; bounds how long the first of them waits for the last


class Transaction:
    """One transaction under way, with the events that will be its block of the log."""

    def __init__(self, db: apsw.Connection) -> None:
        self.db = db
        self.events: list[Event] = []
        self.readied: set[str] = set()  # targets in which something may have become claimable


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
        kept = len(transaction.events)
        self._db.execute("savepoint work")
        try:
            result = work(transaction)
        except (apsw.FullError, apsw.IOError):
            raise  # the disk's trouble is everybody's
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the caller's answer
            self._db.execute("rollback to work")
            del transaction.events[kept:]
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
