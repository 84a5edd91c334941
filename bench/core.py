"""What the rules cost: a message's life with every feature on, decided by the core alone, against a
loop that builds the same records and decides nothing.

Five interleaved rounds, CPU time, median and range; fails when the target is missed, or when the
control varies by more than 30 % and so nothing is shown.

    python bench/core.py
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct, structs

from fairway.core import claim, fairness, route, settle
from fairway.core.claim import Held, Receive
from fairway.core.entries import (
    DIRECTORY,
    TARGET,
    THE_DIRECTORY,
    Directory,
    Known,
    Target,
)
from fairway.core.lifecycle import Verb
from fairway.core.plan import Chance, Plan
from fairway.core.records import (
    AnyKey,
    Delivery,
    Demand,
    Front,
    Grant,
    Lane,
    Lease,
    Load,
    Record,
)
from fairway.core.send import Send, accept, check
from fairway.core.settings import Settings
from fairway.core.settle import Settle, prove

ROUNDS = 5
BATCH = 100
BATCHES = 30  # in one round
TARGET_RATIO = 4.0
STEADY = 0.3
NOW = 1_700_000_000_000_000
FEATURES = Settings(max_active={"*": 1000}, min_active=5, max_queued=10_000_000)
QUEUE = TARGET.next(None, TARGET.key("orders"), Target(id="1", created=1, settings=FEATURES), 1)
ORGANIZATIONS = [f"organization-{n}" for n in range(10)]


def asks(batch: int) -> list[Send]:
    """Priority, organization, an id, an object's key, a name, a ttl, a topic: every feature on."""
    return [
        Send(
            queue="orders",
            body=b"x" * 256,
            mime_type="application/octet-stream",
            id=f"{batch}-{n}",
            organization=ORGANIZATIONS[n % 10],
            topics=["orders.created"],
            object="order",
            key=f"{batch}-{n}",
            replaces=f"name-{batch}-{n}",
            priority=n % 4 + 1,
            ttl=3_600_000_000,
        )
        for n in range(BATCH)
    ]


class Given:
    """What an engine has in hand before the core is asked."""

    def __init__(self, batch: int) -> None:
        self.sends = asks(batch)
        self.ids = [f"01890000-0000-7000-8000-{batch:06x}{n:06x}" for n in range(BATCH)]
        self.chances = [Chance(NOW + n, 0.5) for n in range(BATCH)]


GIVEN = [Given(batch) for batch in range(BATCHES)]


def life(given: Given) -> Iterator[Any]:
    """Send, claim, settle of one batch; all that the core made on the way."""
    sends, ids, chances = given.sends, given.ids, given.chances
    known: dict[AnyKey, Record | None] = {
        THE_DIRECTORY: DIRECTORY.next(None, THE_DIRECTORY, Directory(targets=1), 1),
        QUEUE.the_key: QUEUE,
    }
    accepted = [accept(check(ask), id, id, NOW) for ask, id in zip(sends, ids, strict=True)]
    for ask in accepted:
        known.update((key, None) for key in route.first_needs(ask) if key not in known)
    loads = {"orders": Load()}
    looked_up = Known(known)
    plans = [
        route.decide(ask, looked_up, NOW, chance, loads)
        for ask, chance in zip(accepted, chances, strict=True)
    ]
    yield plans
    born = [_delivery(plan) for plan in plans]
    known.update((record.the_key, record) for plan in plans for record in _entries(plan))
    held = yield from granted(born, {a.message.send: a.message for a in accepted})
    for leased, _ in held:
        known[leased.the_key] = leased
    looked_up = Known(known)
    yield [
        settle.decide(
            prove(Settle(Verb.ACK, h.queue, h.message.id, h.ack_id)), looked_up, NOW + 1, c
        )
        for (_, h), c in zip(held, chances, strict=True)
    ]


def granted(born: list[Delivery], messages: dict[str, Any]) -> Iterator[Any]:
    """One receive: who is next, what the store is asked, what the grants become."""
    ask = Receive(queue="orders", limit=BATCH, consumer="worker-1")
    rules = claim.policy(FEATURES, ask.service)
    lanes: dict[Lane, list[Delivery]] = {}
    for d in born:
        lanes.setdefault(Lane(d.priority, d.turn, d.organization, d.confirmed), []).append(d)
    fronts = [Front(lane, len(found), 0, NOW) for lane, found in sorted(lanes.items())]
    lines = []
    for priority in claim.PRIORITIES:
        of_it = [front for front in fronts if front.lane.priority == priority]
        line = fairness.look(fairness.Walk(), len(of_it), BATCH, rules.min_active)
        while line.asks is not None:
            line = line.told(claim.waiting(of_it, ask, NOW), 0.5)
        lines.append(line)
    lease = Lease(b"0123456789ab", NOW, 30_000_000, ask.consumer, ask.service, "1")
    entry = TARGET.read(QUEUE)
    planned = claim.plan(ask, QUEUE, entry, lines, fronts, {}, lease, 0.5)
    yield planned
    given = [
        (delivery, claim.grant(delivery, demand, planned.stamp))
        for demand in planned.demands
        for delivery in _of(lanes, demand)
    ]
    yield [told for _, told in given]
    vetted = [claim.vet(Grant(d, messages[d.send]), NOW) for _, (d, _) in given]
    held = [(d, h) for (_, (d, _)), h in zip(given, vetted, strict=True) if isinstance(h, Held)]
    yield vetted
    return held


def _of(lanes: dict[Lane, list[Delivery]], demand: Demand) -> list[Delivery]:
    return lanes[demand.lane][: demand.limit]


def _delivery(plan: Any) -> Delivery:
    assert isinstance(plan, Plan)
    return next(put.now for put in plan.change.puts if isinstance(put.now, Delivery))


def _entries(plan: Any) -> list[Any]:
    return [put.now for put in plan.change.puts if not isinstance(put.now, Delivery)]


def parts(made: Any) -> Iterator[tuple[Callable[..., Any], dict[str, Any]]]:
    """Each record that was made, as its type and its fields: inner ones first."""
    if isinstance(made, Struct):
        for name in made.__struct_fields__:
            yield from parts(getattr(made, name))
        yield type(made), structs.asdict(made)
    elif isinstance(made, list | tuple):
        for item in made:
            yield from parts(item)


def cpu_of(work: Callable[[], object]) -> float:
    gc.collect()
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> int:
    recipes = [list(parts(made)) for made in life(GIVEN[0])]
    recipe = [one for part in recipes for one in part]

    def decide() -> None:
        for given in GIVEN:
            for _ in life(given):
                pass

    def build() -> None:
        for _ in range(BATCHES):
            for kind, fields in recipe:
                kind(**fields)

    decide(), build()  # warm
    ratios, controls = [], []
    for _ in range(ROUNDS):
        control, product = cpu_of(build), cpu_of(decide)
        controls.append(control)
        ratios.append(product / control)
    a_life = 1e6 / BATCH / BATCHES
    median = statistics.median(ratios)
    varies = max(controls) / min(controls) - 1
    print(f"records built for a life: {len(recipe) / BATCH:.1f}")
    print(f"control: {statistics.median(controls) * a_life:.2f} µs a life, varies by {varies:.0%}")
    print(
        f"core / control: {median:.2f} × [{min(ratios):.2f}–{max(ratios):.2f}] "
        f"(target ≤ {TARGET_RATIO:.0f} ×), {median * statistics.median(controls) * a_life:.1f} µs a life"
    )
    if varies > STEADY:
        print("the control varies too much: nothing is shown")
        return 1
    return 0 if median <= TARGET_RATIO else 1


if __name__ == "__main__":
    sys.exit(main())
