"""Claims deliveries for a consumer, and waits for them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from fairway.clock import Clock, Source
from fairway.core import claim, fairness, limits
from fairway.core.claim import Held, Receive
from fairway.core.entries import TARGET, Target
from fairway.core.fairness import Line, Walk
from fairway.core.records import Claim, Conflict, Entry, Front, Grant, Lease
from fairway.core.settle import Return
from fairway.engine.batch import Batch
from fairway.engine.known import Memory
from fairway.store.contract import Store

TakeBack = Callable[[Sequence[Return]], Awaitable[object]]


class Look(Struct):
    """What one receive saw of a queue: who waits in each priority, and when the next one is ready."""

    lines: list[Line]
    fronts: list[Front]
    counters: dict[str, int]

    def next_at(self, now: int) -> int | None:
        later = [f.available_at for f in self.fronts if f.available_at and f.available_at > now]
        return min(later, default=None)


class Receiver:
    """Looks at the lanes, claims what the core planned, waits for more."""

    def __init__(
        self, store: Store, memory: Memory, clock: Clock, source: Source, take_back: TakeBack
    ) -> None:
        self._store = store
        self._memory = memory
        self._clock = clock
        self._source = source
        self._take_back = take_back
        self._claims: Batch[Claim, Sequence[Grant] | Conflict] = Batch(store.claim)
        self._walks: dict[tuple[str, int], Walk] = {}

    async def receive(self, ask: Receive) -> list[Held]:
        claim.check(ask)
        until = self._clock() + ask.wait
        seen = await self._store.wait(ask.queue, -1, 0)
        while True:
            held, next_at = await self._some(ask)
            now = self._clock()
            if held or now >= until:
                return held
            pause = min(until, next_at or until) - now
            seen = await self._store.wait(ask.queue, seen, max(pause, 0) / limits.SECOND)

    async def _some(self, ask: Receive) -> tuple[list[Held], int | None]:
        """What can be had now; else when the first of the queue becomes available."""
        for _ in range(limits.DECISIONS):  # others may take what was planned
            entry, target = await self._target(ask.queue)
            if entry is None or target is None:
                return [], None
            claim.check_with(ask, target.settings)
            now = self._clock()
            look = await self._look(ask, claim.policy(target.settings, ask.service), now)
            window = ask.window or target.settings.visibility_window
            lease = Lease(self._source.claim(), now, window, ask.consumer, ask.service)
            chance = self._source.chance().draw
            planned = claim.plan(
                ask, entry, target, look.lines, look.fronts, look.counters, lease, chance
            )
            if not planned.demands:
                return [], look.next_at(now)
            held = await self._claimed(ask, planned)
            if held:
                return held, None
        return [], None

    async def _target(self, queue: str) -> tuple[Entry | None, Target | None]:
        """The queue, if it gives anything out; what is remembered to the contrary is looked up."""
        for again in (False, True):
            entry = await self._memory.entry(TARGET.key(queue), again=again)
            target = TARGET.read(entry) if entry is not None else None
            if target is not None and target.deleted is None and not target.paused:
                return entry, target
        return None, None

    async def _claimed(self, ask: Receive, planned: Claim) -> list[Held]:
        answer = (await self._claims.ask([planned]))[0]
        if isinstance(answer, Conflict):
            self._memory.learn(answer.found)
            return []
        self._walked(ask.queue, answer)
        vetted = [claim.vet(grant, self._clock()) for grant in answer]
        in_vain = [one for one in vetted if isinstance(one, Return)]
        if in_vain:
            await self._take_back(in_vain)
        return [one for one in vetted if isinstance(one, Held)]

    async def _look(self, ask: Receive, rules: fairness.Policy, now: int) -> Look:
        look = Look([], [], {})
        active = (0, 0, 0, 0)
        if rules.max_active is not None:
            look.counters = (await self._store.tally(ask.queue, 1, fairness.START, 0)).counters
            active = claim.active(ask.queue, ask.service, look.counters)
        needs = fairness.needs(ask.limit, rules, active)
        for priority, need in zip(claim.PRIORITIES, needs, strict=True):
            line = await self._line(ask, priority, need, rules, now, look.fronts)
            look.lines.append(line)
            self._walks[ask.queue, priority] = line.walk
        return look

    async def _line(
        self,
        ask: Receive,
        priority: int,
        need: int,
        rules: fairness.Policy,
        now: int,
        fronts: list[Front],
    ) -> Line:
        walk = self._walks.get((ask.queue, priority))
        if walk is None:
            walk = fairness.begin(self._source.chance().draw)
        tally = await self._store.tally(ask.queue, priority, fairness.START, 0)
        line = fairness.look(walk, tally.organizations, need, rules.min_active)
        while tally.organizations and (after := line.asks) is not None:
            page = await self._store.tally(ask.queue, priority, after, limits.LANES_PAGE)
            fronts += [front for front in page.fronts if front not in fronts]
            rows = claim.waiting(page.fronts, ask, now)
            line = line.told(rows, self._source.chance().draw)
        return line

    def _walked(self, queue: str, grants: Sequence[Grant]) -> None:
        """Who was granted something has had its turn."""
        for priority in claim.PRIORITIES:
            served = {
                grant.delivery.organization
                for grant in grants
                if grant.delivery.priority == priority
            }
            walk = self._walks.get((queue, priority))
            if served and walk is not None:
                self._walks[queue, priority] = walk.served(served)

    async def drain(self) -> None:
        await self._claims.drain()
