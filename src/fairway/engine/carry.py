"""The one loop of every verb that changes something: decide, commit, learn what stood in the way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from msgspec.structs import replace

from fairway.clock import Clock, Source
from fairway.core.entries import Known, Need
from fairway.core.errors import Contended, FairwayError
from fairway.core.limits import DECISIONS
from fairway.core.plan import Chance, Plan
from fairway.core.records import AnyKey, Change, Key, Record
from fairway.engine.known import Memory
from fairway.store.contract import Store

Ask = TypeVar("Ask")
A = TypeVar("A")
Decide = Callable[[Ask, Known, int, Chance], Plan[A] | A | Need | FairwayError]
Needs = Callable[[Ask], Iterable[AnyKey]]


class Carrier:
    """Carries decisions of the core into a store."""

    def __init__(self, store: Store, memory: Memory, clock: Clock, source: Source) -> None:
        self._store = store
        self._memory = memory
        self._clock = clock
        self._source = source

    async def carry(
        self, asks: Sequence[Ask], needs: Needs[Ask], decide: Decide[Ask, A]
    ) -> list[A | FairwayError]:
        """One answer each, in their order. Asks whose changes share a record go one after the other."""
        answers: dict[int, A | FairwayError] = {}
        tries = [0] * len(asks)
        records = await self._memory.look(key for ask in asks for key in needs(ask))
        while len(answers) < len(asks):
            left = [i for i in range(len(asks)) if i not in answers]
            now = self._clock()
            plans = await self._decided(asks, left, records, now, decide, answers)
            chosen = _apart(plans)
            if chosen:
                await self._commit(chosen, now, records, answers, tries)
        return [answers[i] for i in range(len(asks))]

    async def _decided(
        self,
        asks: Sequence[Ask],
        left: Sequence[int],
        records: dict[AnyKey, Record | None],
        now: int,
        decide: Decide[Ask, A],
        answers: dict[int, A | FairwayError],
    ) -> dict[int, Plan[A]]:
        """Decisions for all that is left, once everything is known that they need."""
        while True:
            known = Known(records)
            made = {i: decide(asks[i], known, now, self._source.chance()) for i in left}
            lacking = [key for d in made.values() if isinstance(d, Need) for key in d.keys]
            if not lacking:
                break
            records |= await self._memory.look(lacking)
        plans: dict[int, Plan[A]] = {}
        for i, decision in made.items():
            assert not isinstance(decision, Need)
            if isinstance(decision, Plan):
                plans[i] = decision
            else:
                answers[i] = decision
        return plans

    async def _commit(
        self,
        plans: dict[int, Plan[A]],
        now: int,
        records: dict[AnyKey, Record | None],
        answers: dict[int, A | FairwayError],
        tries: list[int],
    ) -> None:
        conflicts = await self._store.commit([plan.change for plan in plans.values()], now)
        for (i, plan), conflict in zip(plans.items(), conflicts, strict=True):
            if conflict is None:
                answers[i] = plan.answer
                records |= self._memory.written(plan.change)
                continue
            records |= self._memory.learn(conflict.found)
            _forget_versions(records, conflict.found)
            tries[i] += 1
            if tries[i] == DECISIONS:
                answers[i] = Contended("others keep changing this message: try again")


def _forget_versions(
    records: dict[AnyKey, Record | None], found: Mapping[AnyKey, Record | None]
) -> None:
    """What was known of single versions of a message that has moved on is looked up again."""
    for key in list(records):
        if isinstance(key, Key) and key.generation and replace(key, generation=0) in found:
            del records[key]


def _apart(plans: dict[int, Plan[A]]) -> dict[int, Plan[A]]:
    """Those whose changes share no record with one before them; the others are decided again."""
    taken: set[AnyKey] = set()
    chosen: dict[int, Plan[A]] = {}
    for i, plan in plans.items():
        keys = _written(plan.change)
        read = {key for key, _ in plan.change.holds}
        if not (keys | read) & taken:
            chosen[i] = plan
        taken |= keys
    return chosen


def _written(change: Change) -> set[AnyKey]:
    return {
        *(put.now.the_key for put in change.puts),
        *(removal.gone.the_key for removal in change.removes),
    }
