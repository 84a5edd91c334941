"""The verbs on a store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from fairway.clock import Clock, Source, system_clock
from fairway.core import operate, place, retention, route, send, settle, targets, task
from fairway.core.claim import Held, Receive
from fairway.core.compact import Logged as Pended
from fairway.core.compact import Placement
from fairway.core.entries import BETWEEN, PENDING, TARGET, THE_DIRECTORY
from fairway.core.errors import FairwayError, NotFound
from fairway.core.events import Logged
from fairway.core.lifecycle import Verb
from fairway.core.limits import EVENTS_KEPT, PRUNED, SWEEP_PAGE, TARGETS, TASK_PAGE, TASKS
from fairway.core.operate import Operate, Operated
from fairway.core.place import Placing
from fairway.core.records import Change, Entry, Filter, LogState, Page, Place, Removal
from fairway.core.send import Accepted, Outcome, Send, Sent
from fairway.core.settle import Proved, Return, Settle, Settled
from fairway.core.targets import Arrange, Arranged
from fairway.core.task import TASK, Task
from fairway.engine.batch import Batch
from fairway.engine.carry import Carrier
from fairway.engine.known import Memory
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
        self._memory = Memory(store, self._clock)
        self._carrier = Carrier(store, self._memory, self._clock, self._source)
        self._receiver = Receiver(store, self._memory, self._clock, self._source, self._take_back)
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

    async def operate(self, asks: Sequence[Operate]) -> Sequence[Operated | FairwayError]:
        """Cancel, change and the like, on messages by their keys."""
        checked = [operate.check(ask) for ask in asks]
        answers = await self._carrier.carry(checked, operate.first_needs, operate.decide)
        return [
            operate.not_placed(ask)
            if isinstance(answer, NotFound) and await self._is_pending(ask)
            else answer
            for ask, answer in zip(checked, answers, strict=True)
        ]

    async def _is_pending(self, ask: Operate) -> bool:
        key = PENDING.key(ask.key.target, ask.key.organization, ask.key.id, "")
        return bool(await self.store.entries(PENDING.name, key.name, "", 1))

    async def arrange(self, ask: Arrange) -> Arranged | FairwayError:
        """Create, alter, pause, resume or delete a queue or a channel."""
        if ask.verb == "delete" and not ask.force:
            # In two steps: what is sent between the look and the deletion must not be lost.
            closed = await self._arrange(replace(ask, verb="close"))
            if isinstance(closed, FairwayError):
                return closed
            answer = await self._arrange(ask)
            if isinstance(answer, FairwayError):
                await self._arrange(replace(ask, verb="open"))
            return answer
        return await self._arrange(ask)

    async def _arrange(self, ask: Arrange) -> Arranged | FairwayError:
        [load] = await self.store.loads([ask.target])
        prefix = f"{ask.target}{BETWEEN}"
        unplaced = await self.store.entries(PENDING.name, prefix, "", 1)
        checked = targets.check(ask, load.queued + len(unplaced))
        [answer] = await self._carrier.carry([checked], targets.first_needs, targets.decide)
        return answer

    async def sweep(self) -> int:
        """Returns what lapsed and ends what expired; how many were looked at."""
        due = await self.store.due(self._clock(), SWEEP_PAGE)
        await self._take_back([Return(d) for d in due if d.place is Place.LEASED])
        expired = [Operate(Verb.EXPIRE, d.the_key) for d in due if d.place is Place.WAITING]
        await self._carrier.carry(expired, operate.first_needs, operate.decide)
        return len(due)

    async def begin(self, wanted: Task) -> Task | FairwayError:
        """Starts work in pages; with the id of a task that is there, answers that one."""
        asks = [task.Begin(task.check(wanted))]
        [answer] = await self._carrier.carry(asks, task.first_needs, task.begin)
        return answer

    async def run_tasks(self) -> int:
        """One page of every task that may go on; how many there were."""
        now, running = self._clock(), 0
        async for entry in self._tasks():
            found = TASK.read(entry)
            wants = task.wants(found)
            if wants is None or found.not_before > now:
                continue
            running += 1
            turn = await self._page(found, *wants)
            await self._carrier.carry([turn], task.first_needs, task.turn)
        return running

    async def _tasks(self) -> AsyncIterator[Entry]:
        after = ""
        while page := await self.store.entries(TASK.name, "", after, TASKS):
            for entry in page:
                yield entry
            after = page[-1].name

    async def _page(self, found: Task, rows: Place | None, where: Filter, after: str) -> task.Turn:
        """The rows of a task's next page: deliveries in a place, or sends that wait to be placed."""
        if rows is not None:
            page = await self.store.scan(rows, where, after, TASK_PAGE)
            sends = [row.send for row in page.found]
            messages = dict(zip(sends, await self.store.messages(sends), strict=True))
            return task.Turn(found.id, page, messages, found.step, found.after)
        prefix = f"{found.target}{BETWEEN}"
        pending = await self.store.entries(PENDING.name, prefix, after, TASK_PAGE)
        more = pending[-1].name if len(pending) == TASK_PAGE else None
        page = Page([], len(pending), more)
        return task.Turn(found.id, page, {}, found.step, found.after, pending)

    async def place(self, placements: Sequence[Placement]) -> Sequence[Outcome | FairwayError]:
        """Places what was only logged; each answers where it is now, or that it must wait."""
        asks: list[Placing] = []
        for placement in placements:
            sends = [placement.send, *(cover.send for cover in placement.covers)]
            messages = zip(sends, await self.store.messages(sends), strict=True)
            asks.append(Placing(placement, dict(messages)))
        reached = list(dict.fromkeys(placement.target for placement in placements))
        decide = partial(place.decide, loads=await self._memory.loads(reached))
        return await self._carrier.carry(asks, place.first_needs, decide)

    async def pending(self, target: str, limit: int) -> Sequence[Pended]:
        """What a target left to the pipeline and is not placed yet, with its messages."""
        entries = await self.store.entries(PENDING.name, f"{target}{BETWEEN}", "", limit)
        sends = [entry.name.rpartition(BETWEEN)[2] for entry in entries]
        found = zip(entries, await self.store.messages(sends), strict=True)
        return [Pended(message, PENDING.read(entry)) for entry, message in found if message]

    async def retain(self) -> int:
        """Removes what rests too long or is too much, and what of the log is too old; how many."""
        removed = 0
        for entry in await self.store.entries(TARGET.name, "", "", TARGETS):
            [load] = await self.store.loads([entry.name])
            for old in retention.old(TARGET.read(entry), load, self._clock(), PRUNED):
                found = await self.store.oldest(old.place, entry.name, old.before, old.limit)
                if not found:
                    continue
                asks = [retention.Remove(old, found)]
                await self._carrier.carry(asks, retention.first_needs, retention.decide)
                removed += len(found)
        async for entry in self._tasks():
            if task.is_over(TASK.read(entry), self._clock()):
                await self.store.commit([Change((), (), removes=(Removal(entry),))], self._clock())
        await self._log.forget(self._clock() - EVENTS_KEPT)
        return removed

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
            ids = self._source.uuid7(), self._source.uuid7()
            return send.accept(send.check(ask), *ids, self._clock())
        except FairwayError as error:
            return error

    async def _send(self, asks: Sequence[Accepted]) -> Sequence[Sent | FairwayError]:
        """As if no delivery stood in the way: a new id then costs one round trip."""
        directory = await self._memory.entry(THE_DIRECTORY)
        reached = (
            target for ask in asks for target in (*ask.queues, *route.channels_of(ask, directory))
        )
        loads = await self._memory.loads(list(dict.fromkeys(reached)))
        decide = partial(route.decide, loads=loads)
        return await self._carrier.carry(asks, route.first_needs, decide)

    async def _settle(self, asks: Sequence[Proved]) -> Sequence[Settled | FairwayError]:
        return await self._carrier.carry(asks, settle.first_needs, settle.decide)

    async def _take_back(self, asks: Sequence[Return]) -> object:
        return await self._carrier.carry(asks, settle.first_needs, settle.take_back)


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
