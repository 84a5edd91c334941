"""Returns what lapsed, ends what expired. Every engine may: a change that came too late is none."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from itertools import count

from fairway.core.errors import StoreError
from fairway.core.limits import PRUNED, RETAIN_EVERY, SECOND, SWEEP_EVERY, SWEEP_PAGE
from fairway.engine.engine import Engine

log = logging.getLogger("fairway.sweep")


class Sweeper:
    """A task of the engine's event loop, from start to stop."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        for round_ in count():
            try:
                while await self._engine.sweep() == SWEEP_PAGE:
                    pass
                await self._engine.run_tasks()
                if round_ % (RETAIN_EVERY // SWEEP_EVERY) == 0:
                    while await self._engine.retain() >= PRUNED:
                        pass
            except StoreError as error:
                log.warning("what is due could not be swept, trying again: %s", error)
            except Exception:
                log.exception("sweeping failed, trying again")
            await asyncio.sleep(SWEEP_EVERY / SECOND)
