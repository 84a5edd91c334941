"""The verbs on a store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TypeVar

from fairway.clock import Clock, Source, system_clock
from fairway.core import send, settle
from fairway.core.claim import Held, Receive
from fairway.core.errors import FairwayError
from fairway.core.events import Logged
from fairway.core.limits import SWEEP_PAGE
from fairway.core.records import LogState
from fairway.core.send import Accepted, Send, Sent
from fairway.core.settle import Lapse, Proved, Settle, Settled
from fairway.engine.batch import Batch
from fairway.engine.carry import Carrier
from fairway.engine.log import LogReader
from fairway.engine.receive import Receiver
from fairway.store.contract import Store

A = TypeVar("A")
Ask = TypeVar("Ask")


class Engine:
    """Checks what is asked, joins it with what others ask, and carries it out."""

    def __init__(
        self, store: Store, clock: Clock | None = None, source: Source | None = None
    ) -> None:
        self.store = store
        self._clock = clock or system_clock()
        self._source = source or Source(self._clock)
        self._carrier = Carrier(store, self._clock, self._source)
        self._receiver = Receiver(store, self._clock, self._source)
        self._log = LogReader(store)
        self._sends: Batch[Accepted, Sent | FairwayError] = Batch(self._send)
        self._settles: Batch[Proved, Settled | FairwayError] = Batch(self._settle)

    async def send(self, asks: Sequence[Send]) -> Sequence[Sent | FairwayError]:
        checked = [self._accept(ask) for ask in asks]
        return await _ask_those_that_hold(self._sends, checked)

    async def receive(self, ask: Receive) -> Sequence[Held]:
        return await self._receiver.receive(ask)

    async def settle(self, asks: Sequence[Settle]) -> Sequence[Settled | FairwayError]:
        checked = [_prove(ask) for ask in asks]
        return await _ask_those_that_hold(self._settles, checked)

    async def lapse(self) -> int:
        """Returns deliveries whose lease is over; the number that was looked at."""
        over = await self.store.lapsed(self._clock(), SWEEP_PAGE)
        asks = [Lapse(leased) for leased in over]
        await self._carrier.carry(asks, settle.lapse, {ask.key: ask.leased for ask in asks})
        return len(over)

    async def log(self) -> LogState:
        return await self._log.log()

    def read_log(
        self, shard: int, first: int, last: int, columns: Sequence[str] | None = None
    ) -> AsyncIterator[bytes]:
        return self._log.arrow(shard, first, last, columns)

    async def events(self, shard: int, after: int, limit: int) -> Sequence[Logged]:
        return await self._log.events(shard, after, limit)

    async def close(self) -> None:
        for batch in (self._sends, self._settles, self._receiver):
            await batch.drain()
        await self.store.close()

    def _accept(self, ask: Send) -> Accepted | FairwayError:
        try:
            return send.accept(
                send.check(ask), self._source.uuid7(), self._source.uuid7(), self._clock()
            )
        except FairwayError as error:
            return error

    async def _send(self, asks: Sequence[Accepted]) -> Sequence[Sent | FairwayError]:
        """As if nothing stood in the way: a new id then costs one round trip."""
        return await self._carrier.carry(asks, send.decide, {})

    async def _settle(self, asks: Sequence[Proved]) -> Sequence[Settled | FairwayError]:
        known = await self._carrier.look([ask.key for ask in asks])
        return await self._carrier.carry(asks, settle.decide, known)


def _prove(ask: Settle) -> Proved | FairwayError:
    try:
        return settle.prove(ask)
    except FairwayError as error:
        return error


async def _ask_those_that_hold(
    batch: Batch[Ask, A | FairwayError], checked: Sequence[Ask | FairwayError]
) -> Sequence[A | FairwayError]:
    """What failed its check is its own answer; the rest is asked."""
    asks = [ask for ask in checked if not isinstance(ask, FairwayError)]
    answers = iter(await batch.ask(asks))
    return [ask if isinstance(ask, FairwayError) else next(answers) for ask in checked]
