"""How fairly the next deliveries are given: among the priorities, and among organizations.

    .venv/bin/python bench/fairness.py             every figure beside its target
    .venv/bin/python bench/fairness.py --seed 7    the same, with other random choices

Runs the arithmetic of fairway.core.fairness alone, on lanes that are numbers in memory: no store,
no clock. Ends with 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import bisect
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fairway.core import limits
from fairway.core.fairness import (
    PRIORITIES,
    Cursor,
    Four,
    Policy,
    Waiting,
    begin,
    caps,
    look,
    needs,
    plan,
    turn_of,
)

COMPLETIONS = 60_000
CLAIMS = 100_000
ORGANIZATIONS = 1_000
SIZES: tuple[int | None, ...] = (None, 1, 3, 10, 100)
WORKERS = 50  # leases held at once where there is no limit
PLENTY = 10**9

OF_ITS_SHARE = 0.5
POINTS = 2.0
TURNS_IN_N = 2.0
JAIN = 0.95


class Figure(NamedTuple):
    """One figure with its target."""

    name: str
    value: float
    target: str
    is_met: bool

    def __str__(self) -> str:
        verdict = "met" if self.is_met else "MISSED"
        return f"{self.name:<86} {self.value:>8.3f}   target {self.target:<8} {verdict}"


class Lanes:
    """The deliveries of one priority: how many of each organization wait, how many are leased."""

    def __init__(self) -> None:
        self.ready: dict[str, int] = {}
        self.active: Counter[str] = Counter()
        self.circle: list[Cursor] = []

    def add(self, organization: str, messages: int) -> None:
        if organization not in self.ready:
            bisect.insort(self.circle, (turn_of(organization), organization))
        self.ready[organization] = self.ready.get(organization, 0) + messages

    def lease(self, organization: str, messages: int) -> None:
        self.ready[organization] -= messages
        self.active[organization] += messages
        assert self.ready[organization] >= 0, "more than the tally said"
        if not self.ready[organization]:
            del self.ready[organization]
            self.circle.remove((turn_of(organization), organization))

    def behind(self, cursor: Cursor) -> list[Waiting]:
        first = bisect.bisect_right(self.circle, cursor)
        return [
            Waiting(turn, name, self.ready[name], self.active[name])
            for turn, name in self.circle[first : first + limits.LANES_PAGE]
        ]


class Broker:
    """One engine, one queue and one service, with a store that is exact."""

    def __init__(self, policy: Policy, seed: int) -> None:
        self.policy = policy
        self.random = random.Random(seed)
        self.lanes = [Lanes() for _ in PRIORITIES]
        self.walks = [begin(self.random.random()) for _ in PRIORITIES]
        self.leases: list[tuple[int, str]] = []
        self.peak = [0, 0, 0, 0]

    @property
    def active(self) -> Four:
        held = [sum(lane.active.values()) for lane in self.lanes]
        return held[0], held[1], held[2], held[3]

    def receive(self, limit: int) -> list[tuple[int, str, int]]:
        """What was granted: priority, organization, how many."""
        active, chance = self.active, self.random.random()
        lines = [
            look(walk, len(lanes.circle), need, self.policy.min_active)
            for walk, lanes, need in zip(
                self.walks, self.lanes, needs(limit, self.policy, active), strict=True
            )
        ]
        for p, lanes in enumerate(self.lanes):
            while (after := lines[p].asks) is not None:
                lines[p] = lines[p].told(lanes.behind(after), self.random.random())
        granted: list[tuple[int, str, int]] = []
        for portion in plan(limit, self.policy, active, lines, chance):
            self.lanes[portion.priority - 1].lease(portion.organization, portion.amount)
            self.leases += [(portion.priority, portion.organization)] * portion.amount
            granted.append((portion.priority, portion.organization, portion.amount))
        for p in PRIORITIES:
            served = {organization for priority, organization, _ in granted if priority == p + 1}
            self.walks[p] = lines[p].walk.served(served)
            self.peak[p] = max(self.peak[p], sum(self.lanes[p].active.values()))
        return granted

    def complete(self, count: int = 1) -> Iterator[tuple[int, str]]:
        """Ends leases at random, as when all work takes equally long on average."""
        for _ in range(min(count, len(self.leases))):
            at = self.random.randrange(len(self.leases))
            self.leases[at], self.leases[-1] = self.leases[-1], self.leases[at]
            priority, organization = self.leases.pop()
            self.lanes[priority - 1].active[organization] -= 1
            yield priority, organization


class Shared(NamedTuple):
    """How the completions were divided among the priorities, and the most leases each ever held."""

    points: list[float]
    peak: list[int]


def all_loaded(max_active: int | None, completions: int, seed: int) -> Shared:
    """All four priorities always have messages; one slot is freed at a time."""
    broker = Broker(Policy(max_active=max_active), seed)
    for lanes in broker.lanes:
        lanes.add("one", PLENTY)
    slots = WORKERS if max_active is None else max_active
    while len(broker.leases) < slots:
        broker.receive(slots - len(broker.leases))
    counted: Counter[int] = Counter()
    for _ in range(completions):
        counted.update(priority for priority, _ in broker.complete())
        broker.receive(1)
    points = [100 * counted[priority] / completions for priority in (1, 2, 3, 4)]
    return Shared(points, broker.peak)


def zipf(organizations: int, messages: int, first: float) -> dict[str, int]:
    """One organization has the share `first` of the messages, the others what Zipf's law gives."""
    weights = [1 / rank for rank in range(1, organizations)]
    rest = messages * (1 - first) / sum(weights)
    sizes = [round(messages * first), *(max(1, round(rest * weight)) for weight in weights)]
    return {f"organization-{rank:04}": size for rank, size in enumerate(sizes)}


class Walked(NamedTuple):
    """What a drain by one engine showed. `worst` is the longest wait of one organization, in turns
    and in units of the n organizations that waited when its wait began."""

    worst: float
    taken: Counter[str]


def drain(policy: Policy, load: dict[str, int], limit: int, claims: int, seed: int) -> Walked:
    """Claims of one priority until `claims` were granted or nothing is left."""
    broker = Broker(policy, seed)
    lanes = broker.lanes[2]
    for organization, messages in load.items():
        lanes.add(organization, messages)
    taken: Counter[str] = Counter()
    waits_since = dict.fromkeys(load, (0, len(load)))
    worst, turn = 0.0, 0
    held = policy.max_active or WORKERS
    while taken.total() < claims and lanes.circle:
        if len(broker.leases) >= held:
            list(broker.complete(max(1, held // 2)))
        waiting = len(lanes.circle)
        for organization, amount in merged(broker.receive(limit)):
            turn += 1
            taken[organization] += amount
            since, number = waits_since.pop(organization)
            worst = max(worst, (turn - since) / number)
            if organization in lanes.ready:
                waits_since[organization] = turn, waiting
            else:
                waiting -= 1
    return Walked(max([worst, *((turn - t) / n for t, n in waits_since.values())]), taken)


def merged(granted: Sequence[tuple[int, str, int]]) -> Iterator[tuple[str, int]]:
    """A turn is one organization in one receive, however often the plan names it."""
    amounts: Counter[str] = Counter()
    for _, organization, amount in granted:
        amounts[organization] += amount
    yield from amounts.items()


def jain(taken: Sequence[float]) -> float:
    """Jain's index: 1 when all are alike, 1/n when one has everything."""
    return sum(taken) ** 2 / (len(taken) * sum(one * one for one in taken))


def fair_parts(load: dict[str, int], claims: int) -> dict[str, float]:
    """What each is due: an equal part of the claims, and who has fewer leaves the rest to others."""
    parts: dict[str, float] = {}
    left = float(claims)
    for rank, (organization, messages) in enumerate(sorted(load.items(), key=lambda one: one[1])):
        parts[organization] = min(messages, left / (len(load) - rank))
        left -= parts[organization]
    return parts


def jain_of(taken: Counter[str], load: dict[str, int]) -> float:
    parts = fair_parts(load, taken.total())
    return jain([taken[organization] / part for organization, part in parts.items()])


def priorities(seed: int) -> Iterator[Figure]:
    shares = Policy().shares
    for size in SIZES:
        points, peak = all_loaded(size, COMPLETIONS, seed)
        name = f"maxActive {size or 'none'}"
        print(f"{name}: {' / '.join(f'{point:.2f}' for point in points)} % of the completions")
        least = min(point / share for point, share in zip(points, shares, strict=True))
        is_met = least >= OF_ITS_SHARE
        yield Figure(f"{name}: least part of its share", least, f"≥ {OF_ITS_SHARE}", is_met)
        if size in (None, 100):
            off = max(abs(point - share) for point, share in zip(points, shares, strict=True))
            yield Figure(f"{name}: points off 40/30/20/10", off, f"≤ {POINTS}", off <= POINTS)
        if size is not None:
            for p, cap in enumerate(caps(size, shares, Policy().min_active)):
                most = f"{name}: most leases of priority {p + 1}"
                yield Figure(most, peak[p], f"= {cap}", peak[p] == cap)


def organizations(seed: int) -> Iterator[Figure]:
    cases = [
        ("one at a time, no maxActive", Policy(), 1),
        ("tens, no maxActive", Policy(), 10),
        ("fifties, maxActive 100", Policy(max_active=100, shares=(0, 0, 100, 0)), 50),
    ]
    loads = [
        ("a deep backlog", zipf(ORGANIZATIONS, 4_000_000, 0.6)),
        ("most run dry", zipf(ORGANIZATIONS, 400_000, 0.6)),
    ]
    for how, policy, limit in cases:
        for what, load in loads:
            worst, taken = drain(policy, load, limit, CLAIMS, seed)
            name = f"{ORGANIZATIONS} organizations, {what}, {how}"
            longest = f"{name}: longest wait / n turns"
            yield Figure(longest, worst, f"≤ {TURNS_IN_N:g}", worst <= TURNS_IN_N)
            index = jain_of(taken, load)
            yield Figure(f"{name}: Jain index", index, f"≥ {JAIN}", index >= JAIN)
    for number in (1, 2, 3, 63, 64, 65, 70, 128, 129):
        worst, _ = drain(Policy(), {f"o{i}": 40 for i in range(number)}, 7, CLAIMS, seed)
        longest = f"{number} organizations drained: longest wait / n turns"
        yield Figure(longest, worst, f"≤ {TURNS_IN_N:g}", worst <= TURNS_IN_N)


def main() -> int:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--seed", type=int, default=1)
    seed = options.parse_args().seed
    print(f"seed {seed}; {COMPLETIONS:,} completions, {CLAIMS:,} claims")
    started = time.monotonic()
    missed = 0
    for measure in (priorities, organizations):
        for figure in measure(seed):
            print(figure, flush=True)
            missed += not figure.is_met
    print(f"{missed} missed, {time.monotonic() - started:.0f} s")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
