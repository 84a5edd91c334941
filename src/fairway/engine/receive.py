"""Claims deliveries for a consumer, and waits for them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from fairway.clock import Clock, Source
from fairway.core import claim, fairness, limits
from fairway.core.claim import Held, Receive
from fairway.core.entries import TARGET, Target
from fairway.core.fairness import Line, Policy, Walk
from fairway.core.records import Claim, Conflict, Entry, Front, Grant, Lease
from fairway.core.settle import Return
from fairway.engine.batch import Batch
from fairway.engine.known import Memory
from fairway.store.contract import Store

TakeBack = Callable[[Sequence[Return]], Awaitable[object]]


class Look(Struct):
    """What one receive saw of a queue, by priority: who waits there, and the fronts of their lanes."""

    lines: list[Line]
    fronts: list[Front]
    counters: dict[str, int]

    def next_at(self, now: int) -> int | None:
        """When the next delivery becomes available."""
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
        # One receive of a queue plans at a time: two must not plan the same organizations' turns.
        self._planning: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

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

    async def drain(self) -> None:
        await self._claims.drain()

    async def _some(self, ask: Receive) -> tuple[list[Held], int | None]:
        """What can be had now; else when the first of the queue becomes available."""
        for _ in range(limits.DECISIONS):  # others may take what was planned
            entry, target = await self._target(ask.queue)
            if entry is None or target is None:
                return [], None
            claim.check_with(ask, target.settings)
            async with self._planning[ask.queue]:
                now = self._clock()
                look = await self._look(ask, claim.policy(target.settings, ask.service), now)
                planned = self._plan(ask, entry, target, look, now)
                self._turns_taken(ask, look, planned)
            if not planned.demands:
                return [], look.next_at(now)
            held = await self._claimed(ask, look, planned)
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

    # --- looking

    async def _look(self, ask: Receive, rules: Policy, now: int) -> Look:
        look = Look([], [], {})
        active = (0, 0, 0, 0)
        if rules.max_active is not None:
            look.counters = (await self._store.tally(ask.queue, 1, fairness.START, 0)).counters
            active = claim.active(ask.queue, ask.service, look.counters)
        needs = fairness.needs(ask.limit, rules, active)
        for priority, need in zip(claim.PRIORITIES, needs, strict=True):
            look.lines.append(await self._line(ask, priority, need, rules, now, look.fronts))
        return look

    async def _line(
        self,
        ask: Receive,
        priority: int,
        need: int,
        rules: Policy,
        now: int,
        fronts: list[Front],
    ) -> Line:
        tally = await self._store.tally(ask.queue, priority, fairness.START, 0)
        line = fairness.look(self._walk(ask, priority), tally.organizations, need, rules.min_active)
        seen: dict[object, Front] = {}
        while tally.organizations and (after := line.asks) is not None:
            page = await self._store.tally(ask.queue, priority, after, limits.LANES_PAGE)
            seen |= {front.lane: front for front in page.fronts}
            line = line.told(claim.waiting(page.fronts, ask, now), self._source.chance().draw)
        fronts += seen.values()
        return line

    def _walk(self, ask: Receive, priority: int) -> Walk:
        if ask.organization is not None:
            return Walk((fairness.turn_of(ask.organization), ""))
        walk = self._walks.get((ask.queue, priority))
        return fairness.begin(self._source.chance().draw) if walk is None else walk

    # --- planning

    def _plan(self, ask: Receive, entry: Entry, target: Target, look: Look, now: int) -> Claim:
        window = ask.window or target.settings.visibility_window
        lease = Lease(self._source.claim(), now, window, ask.consumer, ask.service, target.id)
        chance = self._source.chance().draw
        return claim.plan(ask, entry, target, look.lines, look.fronts, look.counters, lease, chance)

    def _turns_taken(self, ask: Receive, look: Look, planned: Claim) -> None:
        """Whom this one planned for, the next one does not: it may go on while the claim runs."""
        if ask.organization is not None:
            return  # it walks by itself, and moves nobody's turn
        for priority, line in zip(claim.PRIORITIES, look.lines, strict=True):
            self._walks[ask.queue, priority] = line.walk.served(_planned(planned, priority))

    # --- claiming

    async def _claimed(self, ask: Receive, look: Look, planned: Claim) -> list[Held]:
        answer = (await self._claims.ask([planned]))[0]
        grants: Sequence[Grant] = [] if isinstance(answer, Conflict) else answer
        self._turns_back(ask, look, planned, grants)
        if isinstance(answer, Conflict):
            self._memory.learn(answer.found)
        vetted = [claim.vet(grant, self._clock()) for grant in grants]
        in_vain = [one for one in vetted if isinstance(one, Return)]
        if in_vain:
            await self._take_back(in_vain)
        return [one for one in vetted if isinstance(one, Held)]

    def _turns_back(
        self, ask: Receive, look: Look, planned: Claim, grants: Sequence[Grant]
    ) -> None:
        """Who was planned for and granted nothing has its turn again, before the others."""
        if ask.organization is not None:
            return
        for priority, line in zip(claim.PRIORITIES, look.lines, strict=True):
            served = {
                grant.delivery.organization
                for grant in grants
                if grant.delivery.priority == priority
            }
            missed = _planned(planned, priority) - served
            if missed:
                walk = self._walks[ask.queue, priority]
                self._walks[ask.queue, priority] = walk.put_back(line, missed)


def _planned(planned: Claim, priority: int) -> set[str]:
    """The organizations for which a claim asks in a priority."""
    return {d.lane.organization for d in planned.demands if d.lane.priority == priority}
