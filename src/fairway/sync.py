"""The public verbs for ordinary code: those of aio.py, each run on an event loop in a thread.

Nothing is written twice: `blocking` turns a verb of aio.py into the same verb that waits.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from fairway import aio
from fairway.core.events import Logged
from fairway.delivery import Facts

P = ParamSpec("P")
R = TypeVar("R")


class Portal:
    """An event loop in a thread of its own, and the way into it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fairway", daemon=True)
        self._thread.start()

    def run(self, verb: Coroutine[Any, Any, R]) -> R:
        future = asyncio.run_coroutine_threadsafe(verb, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # Ctrl-C while waiting: nobody wants the answer any more
            raise

    def iterate(self, items: AsyncIterator[R]) -> Iterator[R]:
        async def following() -> R:
            return await anext(items)

        while True:
            try:
                item = self.run(following())
            except StopAsyncIteration:
                return
            yield item

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Twin:
    """The waiting twin of an object of aio.py."""

    def __init__(self, twin: Any, portal: Portal) -> None:
        self._twin = twin
        self._portal = portal

    def wait_for(
        self,
        verb: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        return self._portal.run(verb(self._twin, *args, **kwargs))


def blocking(
    verb: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Any, P], R]:
    """The same verb, with its signature and its documentation, that waits."""

    @wraps(verb)
    def waits(self: Twin, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.wait_for(verb, *args, **kwargs)

    return waits


def connect(url: str) -> Fairway:
    portal = Portal()
    try:
        return Fairway(portal.run(aio.connect(url)), portal)
    except BaseException:
        portal.close()
        raise


class Delivery(Facts, Twin):
    """A message under a lease. In `with` it is acked at the end, or naked by an exception."""

    def __init__(self, twin: aio.Delivery, portal: Portal) -> None:
        self.__dict__.update(vars(twin))  # the facts, and the watch that runs since the receive
        Twin.__init__(self, twin, portal)

    ack = blocking(aio.Delivery.ack)
    nak = blocking(aio.Delivery.nak)
    reject = blocking(aio.Delivery.reject)
    leave = blocking(aio.Delivery.leave)

    def __enter__(self) -> Self:
        self.check_held()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.leave(error)


class Fairway(Twin):
    """A queue system that was opened; close it, or use it in `with`."""

    send = blocking(aio.Fairway.send)
    settle = blocking(aio.Fairway.settle)
    log = blocking(aio.Fairway.log)
    _receive = blocking(aio.Fairway.receive)

    @wraps(aio.Fairway.receive)
    def receive(self, *args: Any, **kwargs: Any) -> list[Delivery]:
        return [Delivery(twin, self._portal) for twin in self._receive(*args, **kwargs)]

    def read_log(
        self, shard: int, first: int, last: int, columns: Sequence[str] | None = None
    ) -> Iterator[bytes]:
        """The positions first..last as one Arrow IPC stream, in chunks of bytes."""
        return self._portal.iterate(self._twin.read_log(shard, first, last, columns))

    def events(self, *, shard: int = 0, after: int = 0) -> Iterator[Logged]:
        """What happened behind a position, up to what can be read now."""
        return self._portal.iterate(self._twin.events(shard=shard, after=after))

    def close(self) -> None:
        """Finishes what was asked."""
        self._portal.run(self._twin.close())
        self._portal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
