"""The one loop of every verb that changes something: decide, commit, learn what stood in the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from fairway.clock import Clock, Source
from fairway.core.errors import Contended, FairwayError
from fairway.core.limits import DECISIONS
from fairway.core.plan import Chance, Plan
from fairway.core.records import Delivery, Key
from fairway.core.settings import DEFAULTS, Settings
from fairway.store.contract import Store


class Keyed(Protocol):
    """An ask that concerns one delivery."""

    @property
    def key(self) -> Key: ...


Ask = TypeVar("Ask", bound=Keyed)
A = TypeVar("A")
Known = Mapping[Key, Delivery | None]
Decide = Callable[[Ask, Known, Settings, int, Chance], Plan[A] | A | FairwayError]


class Carrier:
    """Carries decisions of the core into a store."""

    def __init__(self, store: Store, clock: Clock, source: Source) -> None:
        self._store = store
        self._clock = clock
        self._source = source

    async def look(self, keys: Sequence[Key]) -> dict[Key, Delivery | None]:
        distinct = list(dict.fromkeys(keys))
        return dict(zip(distinct, await self._store.find(distinct), strict=True))

    async def carry(
        self, asks: Sequence[Ask], decide: Decide[Ask, A], known: dict[Key, Delivery | None]
    ) -> list[A | FairwayError]:
        """One answer each, in their order. Asks of one key are decided one after the other."""
        answers: dict[int, A | FairwayError] = {}
        tries = [0] * len(asks)
        while len(answers) < len(asks):
            now = self._clock()
            plans: dict[int, Plan[A]] = {}
            named: set[Key] = set()
            for i, ask in enumerate(asks):
                if i in answers or ask.key in named:
                    continue
                named.add(ask.key)
                decision = decide(ask, known, DEFAULTS, now, self._source.chance())
                if isinstance(decision, Plan):
                    plans[i] = decision
                else:
                    answers[i] = decision
            await self._commit(plans, now, known, answers, tries)
        return [answers[i] for i in range(len(asks))]

    async def _commit(
        self,
        plans: dict[int, Plan[A]],
        now: int,
        known: dict[Key, Delivery | None],
        answers: dict[int, A | FairwayError],
        tries: list[int],
    ) -> None:
        if not plans:
            return
        conflicts = await self._store.commit([plan.change for plan in plans.values()], now)
        for (i, plan), conflict in zip(plans.items(), conflicts, strict=True):
            if conflict is None:
                answers[i] = plan.answer
                known.update((put.now.the_key, put.now) for put in plan.change.puts)
                continue
            known.update(conflict.found)
            tries[i] += 1
            if tries[i] == DECISIONS:
                answers[i] = Contended("others keep changing this message: try again")
