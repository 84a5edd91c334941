"""An engine with its loops, opened on a store of this machine; used by the library and the server."""

from __future__ import annotations

from fairway.clock import system_clock
from fairway.engine.engine import Engine
from fairway.loops.sweep import Sweeper
from fairway.store.registry import open_store


class Local(Engine):
    """An engine whose loops run until it is closed."""

    sweeper: Sweeper

    async def close(self) -> None:
        await self.sweeper.stop()
        await super().close()


async def open_local(url: str) -> Local:
    clock = system_clock()
    engine = Local(await open_store(url, clock), clock)
    engine.sweeper = Sweeper(engine)
    engine.sweeper.start()
    return engine
