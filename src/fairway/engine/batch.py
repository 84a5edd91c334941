"""Joins what concurrent callers ask: while one call runs, the others gather for the next."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from fairway.core.errors import Overloaded
from fairway.core.limits import JOINED_ASKS, WAITING_ASKS

Ask = TypeVar("Ask")
Answer = TypeVar("Answer")


class Batch(Generic[Ask, Answer]):
    """`run` is called by one task at a time, with the asks of all who came meanwhile."""

    def __init__(self, run: Callable[[Sequence[Ask]], Awaitable[Sequence[Answer]]]) -> None:
        self._run = run
        self._callers: deque[tuple[Sequence[Ask], asyncio.Future[Sequence[Answer]]]] = deque()
        self._waiting = 0
        self._task: asyncio.Task[None] | None = None

    async def ask(self, asks: Sequence[Ask]) -> Sequence[Answer]:
        """The answers in the order of the asks. A caller that is cancelled does not stop its asks."""
        if not asks:
            return []
        if self._waiting + len(asks) > WAITING_ASKS:
            raise Overloaded(f"{self._waiting} asks are waiting already: try again a little later")
        answers: asyncio.Future[Sequence[Answer]] = asyncio.get_running_loop().create_future()
        self._callers.append((asks, answers))
        self._waiting += len(asks)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._serve())
        return await answers

    async def drain(self) -> None:
        """Until everything that was asked is answered."""
        while self._task is not None and not self._task.done():
            await asyncio.wait({self._task})

    async def _serve(self) -> None:
        while self._callers:
            joined = self._take()
            asks = [ask for asks, _ in joined for ask in asks]
            try:
                answers = await self._run(asks)
            except Exception as error:  # noqa: BLE001 - each caller is told, the batch goes on
                for _, future in joined:
                    if not future.done():
                        future.set_exception(error)
            else:
                start = 0
                for asks, future in joined:
                    if not future.done():
                        future.set_result(answers[start : start + len(asks)])
                    start += len(asks)

    def _take(self) -> list[tuple[Sequence[Ask], asyncio.Future[Sequence[Answer]]]]:
        joined = [self._callers.popleft()]
        count = len(joined[0][0])
        while self._callers and count + len(self._callers[0][0]) <= JOINED_ASKS:
            joined.append(self._callers.popleft())
            count += len(joined[-1][0])
        self._waiting -= count
        return joined
