"""Reads the event log: as an Arrow stream, and as events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from fairway.core import limits
from fairway.core.errors import InvalidInput, LogGone, NotFound
from fairway.core.events import COLUMNS, Logged, unpack
from fairway.core.records import LogState, ShardState
from fairway.store.contract import Store


class LogReader:
    """Ranges are closed, and checked against what can be read before anything is."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def log(self) -> LogState:
        return await self._store.log()

    async def arrow(
        self, shard: int, first: int, last: int, columns: Sequence[str] | None
    ) -> AsyncIterator[bytes]:
        """One Arrow IPC stream. The same range gives the same bytes, whenever it is read."""
        from fairway.arrow import Stream  # costs an import that other verbs need not pay

        for name in columns or ():
            if name not in COLUMNS:
                raise InvalidInput("columns", f"no column {name!r}: {', '.join(COLUMNS)}")
        await self._check(shard, first, last)
        stream = Stream(shard, columns)
        yield stream.start()
        async for page in self._store.read_log(shard, first, last):
            blocks = [(block.first, block.data) for block in page]
            # Many small blocks take a second to join; nobody else waits for it.
            yield await asyncio.to_thread(stream.batch, blocks, first, last)
        yield stream.end()

    async def events(self, shard: int, after: int, limit: int) -> list[Logged]:
        if not 1 <= limit <= limits.EVENTS_PAGE:
            raise InvalidInput("limit", f"must be 1 to {limits.EVENTS_PAGE}")
        state = await self._shard(shard)
        last = min(after + limit, state.latest)
        if last <= after:
            return []
        await self._check(shard, after + 1, last)
        found: list[Logged] = []
        async for page in self._store.read_log(shard, after + 1, last):
            for block in page:
                for position, event in enumerate(unpack(block.data), block.first):
                    if after < position <= last:
                        found.append(Logged(shard=shard, position=position, event=event))
        return found

    async def forget(self, before: int) -> None:
        """Drops blocks of which every event is older."""
        for state in (await self._store.log()).shards:
            keep = state.earliest
            async for page in self._store.read_log(state.shard, state.earliest, state.latest):
                young = next((b for b in page if unpack(b.data)[-1].at >= before), None)
                keep = young.first if young is not None else page[-1].first + page[-1].count
                if young is not None:
                    break
            if keep > state.earliest:
                await self._store.forget_log(state.shard, keep)

    async def _shard(self, shard: int) -> ShardState:
        for state in (await self._store.log()).shards:
            if state.shard == shard:
                return state
        raise NotFound(f"the log has no shard {shard}")

    async def _check(self, shard: int, first: int, last: int) -> None:
        state = await self._shard(shard)
        if first < state.earliest:
            raise LogGone(
                f"positions {first} to {min(last, state.earliest - 1)} of shard {shard} are past "
                f"their retention: the earliest is {state.earliest}",
                earliest=state.earliest,
            )
        if last > state.latest:
            raise InvalidInput("to", f"{last} is beyond the latest position, {state.latest}")
        if first > last:
            raise InvalidInput("from", f"{first} is behind `to`, {last}")
