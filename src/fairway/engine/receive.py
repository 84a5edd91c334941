"""Claims deliveries for a consumer, and waits for them."""

from __future__ import annotations

from collections.abc import Sequence

from fairway.clock import Clock, Source
from fairway.core import claim, limits
from fairway.core.claim import Held, Receive
from fairway.core.records import Claim, Grant, Lease
from fairway.core.settings import DEFAULTS
from fairway.engine.batch import Batch
from fairway.store.contract import Store


class Receiver:
    """Looks at the lanes, claims what the core planned, waits for more."""

    def __init__(self, store: Store, clock: Clock, source: Source) -> None:
        self._store = store
        self._clock = clock
        self._source = source
        self._claims: Batch[Claim, Sequence[Grant]] = Batch(store.claim)

    async def receive(self, ask: Receive) -> list[Held]:
        claim.check(ask)
        until = self._clock() + ask.wait
        seen = await self._store.wait(ask.queue, -1, 0)
        while True:
            grants, next_at = await self._try(ask)
            now = self._clock()
            if grants or now >= until:
                return [claim.vet(grant) for grant in grants]
            pause = min(until, next_at or until) - now
            seen = await self._store.wait(ask.queue, seen, max(pause, 0) / limits.SECOND)

    async def _try(self, ask: Receive) -> tuple[Sequence[Grant], int | None]:
        """What could be had now; else when the first of the queue becomes available."""
        fronts = await self._store.fronts(ask.queue, limits.LANES_PAGE)
        if not fronts:
            return [], None
        now = self._clock()
        window = ask.window or DEFAULTS.visibility_window
        lease = Lease(self._source.claim(), now, window, ask.consumer, ask.service)
        planned = claim.plan(ask.queue, fronts, lease, ask.limit, now)
        if not planned.demands:
            return [], min(front.available_at for front in fronts)
        return (await self._claims.ask([planned]))[0], None

    async def drain(self) -> None:
        await self._claims.drain()
