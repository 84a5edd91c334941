"""Who gets the next deliveries: the arithmetic by properties, the promises by simulation."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench import fairness as bench
from fairway.core.fairness import (
    PRIORITIES,
    START,
    Four,
    Line,
    Page,
    Policy,
    Portion,
    Waiting,
    Walk,
    batch,
    begin,
    caps,
    draws,
    look,
    needs,
    plan,
    turn_of,
    turns,
)
from fairway.core.limits import LANES_PAGE

SHARES = (40, 30, 20, 10)
AMPLE = (10**9, 10**9, 10**9, 10**9)
CHANCE = st.floats(0, 1, exclude_max=True)
COUNT = st.integers(0, 200)
SOME_SHARES = st.tuples(*[st.integers(1, 97)] * 4)
ANY_SHARES = st.tuples(*[st.integers(0, 100)] * 4)
ROOM = st.tuples(*[st.integers(0, 120)] * 4)

FEWER_COMPLETIONS = 6_000  # a share of 40 % is then measured to ± 0.63 points (one deviation)
POINTS = 3.0


turn = functools.cache(turn_of)


def org(name: str, available: int, active: int = 0) -> Waiting:
    return Waiting(turn(name), name, available, active)


# ── Caps and batches ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("max_active", "min_active", "expected"),
    [
        (100, 5, (40, 30, 20, 10)),
        (20, 5, (8, 6, 5, 5)),  # the minimum lifts the caps past 20 in all; maxActive still holds
        (10, 5, (5, 5, 5, 5)),
        (3, 5, (3, 3, 3, 3)),
        (1, 5, (1, 1, 1, 1)),
        (17, 1, (6, 5, 3, 1)),  # rounding leaves two unused
        (7, 0, (2, 2, 1, 1)),  # nobody is capped at nothing
        (10_000, 5, (4000, 3000, 2000, 1000)),
    ],
)
def test_caps_are_the_shares_of_max_active(
    max_active: int, min_active: int, expected: Four
) -> None:
    assert caps(max_active, SHARES, min_active) == expected


@given(st.integers(1, 10_000), ANY_SHARES, st.integers(0, 10_000))
def test_a_cap_is_at_least_one_and_at_most_max_active(
    max_active: int, shares: Four, min_active: int
) -> None:
    assert all(1 <= cap <= max_active for cap in caps(max_active, shares, min_active))


@pytest.mark.parametrize(
    ("limit", "max_active", "active", "expected"),
    [
        (1000, None, 10**6, 1000),
        (1000, 100, 0, 50),  # half of maxActive
        (10, 100, 0, 10),
        (1000, 100, 99, 1),
        (1000, 100, 100, 0),
        (1000, 100, 170, 0),  # maxActive was lowered: nothing is granted
        (1000, 1, 0, 1),
        (1000, 3, 0, 1),
    ],
)
def test_a_batch_is_half_of_max_active_or_what_is_left_of_it(
    limit: int, max_active: int | None, active: int, expected: int
) -> None:
    assert batch(limit, max_active, active) == expected


# ── Draws ───────────────────────────────────────────────────────────────────────────────────────


def expected_draws(count: int, weights: Four, room: Four) -> list[Fraction]:
    """By a road of its own: the one level at which min(room, level × weight) add up to `count`."""
    count = min(count, sum(room))
    for full in sorted({Fraction(has, weight) for has, weight in zip(room, weights, strict=True)}):
        poured = [min(Fraction(h), full * w) for h, w in zip(room, weights, strict=True)]
        if sum(poured) >= count:
            below = [p for p in PRIORITIES if Fraction(room[p], weights[p]) < full]
            rest = sum(weights[p] for p in PRIORITIES if p not in below)
            level = Fraction(count - sum(room[p] for p in below), rest)
            return [Fraction(room[p]) if p in below else level * weights[p] for p in PRIORITIES]
    raise AssertionError("all rooms together take it")


@given(COUNT, ANY_SHARES, ROOM, CHANCE)
def test_draws_take_all_that_there_is_room_for_and_pass_no_room(
    count: int, weights: Four, room: Four, chance: float
) -> None:
    drawn = draws(count, weights, room, chance)
    assert sum(drawn) == min(count, sum(room))
    assert all(0 <= got <= has for got, has in zip(drawn, room, strict=True))


@given(COUNT, SOME_SHARES, ROOM, CHANCE)
def test_each_draws_its_expected_number_give_or_take_one(
    count: int, weights: Four, room: Four, chance: float
) -> None:
    drawn = draws(count, weights, room, chance)
    for got, expected in zip(drawn, expected_draws(count, weights, room), strict=True):
        assert abs(got - expected) < 1


@given(COUNT, SOME_SHARES, ROOM)
def test_each_draws_exactly_its_expected_number_on_average(
    count: int, weights: Four, room: Four
) -> None:
    expected = expected_draws(count, weights, room)
    unsure = [p for p in PRIORITIES if expected[p] < room[p]]
    whole = sum(weights[p] for p in unsure) or 1
    starts = [draws(count, weights, room, (at + 0.5) / whole) for at in range(whole)]
    assert [Fraction(sum(drawn[p] for drawn in starts), whole) for p in PRIORITIES] == expected


@pytest.mark.parametrize("count", [10, 50, 100, 1000])
@given(chance=CHANCE)
def test_a_batch_of_tens_is_40_30_20_10(count: int, chance: float) -> None:
    tenth = count // 10
    assert draws(count, SHARES, AMPLE, chance) == (4 * tenth, 3 * tenth, 2 * tenth, tenth)


@pytest.mark.parametrize(
    ("count", "room", "expected"),
    [
        (10, (0, 100, 100, 100), (0, 5, 3, 2)),  # who has nothing gives its draws: 30/20/10
        (12, (0, 100, 100, 100), (0, 6, 4, 2)),
        (100, (1, 100, 100, 100), (1, 49, 33, 17)),
        (10, (0, 0, 0, 100), (0, 0, 0, 10)),
        (100, (3, 0, 2, 0), (3, 0, 2, 0)),
        (10, (0, 0, 0, 0), (0, 0, 0, 0)),
    ],
)
def test_who_has_no_room_gives_its_draws_to_the_others(
    count: int, room: Four, expected: Four
) -> None:
    drawn = draws(count, SHARES, room, 0.5)
    assert all(abs(got - due) <= 1 for got, due in zip(drawn, expected, strict=True))
    assert sum(drawn) == sum(expected)
    assert all((got == 0) == (has == 0) for got, has in zip(drawn, room, strict=True))


@given(st.integers(1, 50), CHANCE)
def test_a_share_of_0_is_drawn_only_when_nobody_else_has_room(count: int, chance: float) -> None:
    shares = (60, 40, 0, 0)
    assert draws(count, shares, AMPLE, chance)[2:] == (0, 0)
    first, second, third, fourth = draws(count, shares, (2, 1, 100, 100), chance)
    if count > 3:
        assert (first, second) == (2, 1)
        assert abs(third - fourth) <= 1


# ── Turns ───────────────────────────────────────────────────────────────────────────────────────


def test_the_draws_are_divided_among_all_organizations() -> None:
    line = [org("a", 1000), org("b", 1000), org("c", 1000), org("d", 1000)]
    assert turns(40, 4, 5, line) == {"a": 10, "b": 10, "c": 10, "d": 10}


def test_the_minimum_holds_where_an_equal_part_is_less() -> None:
    line = [org("a", 1000), org("b", 1000), org("c", 1000), org("d", 1000)]
    assert turns(12, 4, 5, line) == {"a": 5, "b": 5, "c": 2}


def test_what_an_organization_does_not_fill_goes_to_the_next() -> None:
    line = [org("a", 1), org("b", 0), org("c", 1000), org("d", 30)]
    assert turns(40, 4, 5, line) == {"a": 1, "c": 29, "d": 10}


def test_what_an_organization_holds_counts_against_its_quota() -> None:
    line = [org("a", 1000, active=9), org("b", 1000, active=2), org("c", 1000, active=50)]
    assert turns(10, 3, 5, line) == {"b": 3, "a": 7}


def test_a_quota_of_nothing_does_not_exist() -> None:
    line = [org("a", 1000), org("b", 1000), org("c", 1000)]
    assert turns(2, 100, 0, line) == {"a": 1, "b": 1}


def test_a_page_is_left_only_when_everybody_on_it_was_given_something() -> None:
    rest, ahead = [org("a", 1000, active=50), org("b", 2)], [org("c", 1000), org("d", 1000)]
    assert turns(2, 100, 5, rest, ahead) == {"b": 2}
    assert turns(9, 100, 5, rest, ahead) == {"a": 1, "b": 2, "c": 5, "d": 1}


LINE = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), max_size=20).map(
    lambda figures: [org(f"o{i}", has, holds) for i, (has, holds) in enumerate(figures)]
)


@given(COUNT, st.integers(0, 100), st.integers(0, 10), LINE, st.integers(0, 20))
def test_turns_give_all_the_draws_and_nobody_more_than_it_has(
    count: int, waiting: int, min_active: int, line: list[Waiting], split: int
) -> None:
    granted = turns(count, waiting, min_active, line[:split], line[split:])
    assert sum(granted.values()) == min(count, sum(one.available for one in line))
    has = {one.organization: one.available for one in line}
    assert all(0 < amount <= has[name] for name, amount in granted.items())


@given(COUNT, st.integers(0, 10), LINE)
def test_nobody_is_given_more_than_its_quota_while_another_is_below_its_own(
    count: int, min_active: int, line: list[Waiting]
) -> None:
    granted = turns(count, 0, min_active, line)
    quota = max(1, min_active, count // max(1, len(line)))
    below = [
        one
        for one in line
        if granted.get(one.organization, 0) < min(quota - one.active, one.available)
    ]
    above = [one for one in line if granted.get(one.organization, 0) > max(0, quota - one.active)]
    assert not (below and above)


# ── The walk ────────────────────────────────────────────────────────────────────────────────────


class Circle:
    """The organizations of one priority, and one engine that walks through them."""

    def __init__(self, names: list[str], chance: random.Random) -> None:
        self.chance = chance
        self.figures = {name: org(name, 10**6) for name in names}
        self.walk = begin(chance.random())
        self.looks = 0

    def line(self, need: int, waiting: int | None = None) -> Line:
        n = len(self.figures) if waiting is None else waiting
        line = look(self.walk, n, need, 5)
        while (after := line.asks) is not None:
            self.looks += 1
            behind = sorted(one for one in self.figures.values() if one.cursor > after)
            line = line.told(behind[:LANES_PAGE], self.chance.random())
        return line

    def receive(self, count: int) -> dict[str, int]:
        line = self.line(count)
        granted = line.turns(count)
        self.walk = line.walk.served(granted)
        return granted


def names(count: int) -> list[str]:
    return [f"o{i}" for i in range(count)]


@pytest.mark.parametrize("number", [1, 2, 3, 10, 63, 64, 65, 127, 128, 129, 192, 300])
def test_each_lap_serves_everybody_once_also_where_a_page_ends_with_the_last(
    number: int, run_seed: int
) -> None:
    circle = Circle(names(number), random.Random(run_seed))
    circle.walk = Walk()
    for _ in range(3):
        served = [name for _ in range(number) for name in circle.receive(1)]
        assert sorted(served) == sorted(names(number))


@pytest.mark.parametrize("number", [63, 64, 65, 128])
@pytest.mark.parametrize("waiting", [0, None])
def test_the_end_of_the_circle_does_not_look_as_if_nobody_waited(
    number: int, waiting: int | None
) -> None:
    circle = Circle(names(number), random.Random(1))
    last = max(one.cursor for one in circle.figures.values())
    circle.walk = Walk(next=last)
    assert circle.line(1, waiting).available
    assert circle.looks <= 2


@given(st.integers(0, 300))
def test_when_nobody_waits_the_circle_was_seen_once_from_its_start(number: int) -> None:
    circle = Circle(names(number), random.Random(number))
    circle.figures = {name: org(name, 0) for name in circle.figures}
    line = circle.line(1)
    assert line.available == 0
    assert line.turns(0) == {}
    assert number // LANES_PAGE < circle.looks <= 2 * (number // LANES_PAGE + 1)


def test_a_small_circle_is_read_once_a_receive() -> None:
    circle = Circle(names(11), random.Random(1))
    circle.walk = Walk(START)
    for receives in range(1, 30):
        assert sum(circle.receive(11).values()) == 11
        assert circle.looks == receives


def test_a_page_is_shuffled_once_and_kept_across_receives() -> None:
    circle = Circle(names(200), random.Random(1))
    circle.walk = Walk()
    first = circle.receive(1)
    order = circle.walk.pages[0].left
    assert [*first, *order] != sorted([*first, *order], key=lambda name: (turn_of(name), name))
    assert [name for _ in order for name in circle.receive(1)] == list(order)


def test_the_shuffle_differs_with_chance_and_only_with_it() -> None:
    rows = sorted(org(name, 1) for name in names(20))
    orders = [look(Walk(), 20, 9, 5).told(rows, chance).found[0] for chance in (0.1, 0.1, 0.2)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2]) == rows


def test_who_has_nothing_left_is_passed_over() -> None:
    circle = Circle(names(20), random.Random(1))
    circle.walk = Walk()
    circle.receive(1)
    gone, *others = circle.walk.pages[0].left
    circle.figures[gone] = org(gone, 0)
    assert [name for _ in others for name in circle.receive(1)] == others


def test_who_was_planned_and_not_granted_keeps_its_place() -> None:
    circle = Circle(names(20), random.Random(1))
    line = circle.line(30)
    first, second, *_ = line.turns(30)
    circle.walk = line.walk.served({first})
    assert next(iter(circle.receive(1))) == second


def test_a_receive_that_ends_a_page_goes_on_with_the_next() -> None:
    circle = Circle(names(100), random.Random(1))
    circle.walk = Walk()
    for _ in range(LANES_PAGE - 1):
        circle.receive(1)
    (last,) = circle.walk.pages[0].left
    first, second, third = circle.receive(12).items()
    assert first == (last, 5)
    assert {second[1], third[1]} == {5, 2}
    assert not {second[0], third[0]} & set(circle.walk.pages[0].left)


def test_a_page_is_over_when_somebody_behind_it_was_granted_something() -> None:
    walk = Walk(
        (9, "z"),
        (
            Page((1, ""), (5, "c"), ("a", "b"), begun=True),
            Page((5, "c"), (9, "z"), ("d", "a", "e")),
        ),
    )
    assert walk.served({"b"}).pages[0].left == ("a",)
    assert walk.served({"b"}).pages[1:] == walk.pages[1:]
    assert walk.served({"d"}).pages == (Page((5, "c"), (9, "z"), ("a", "e"), begun=True),)
    # In both: its turn on the first page is over, the one on the second is to come.
    assert walk.served({"a", "d"}).pages == (Page((5, "c"), (9, "z"), ("a", "e"), begun=True),)
    assert walk.served({"a", "b"}).pages == walk.pages[1:]
    assert walk.served(set()) == walk


def test_a_page_nobody_of_which_had_its_turn_is_taken_again_with_who_joined_it() -> None:
    circle = Circle(names(20), random.Random(1))
    circle.walk = circle.line(1).walk.served(set())  # nothing was granted
    circle.figures["late"] = org("late", 1)
    assert "late" in circle.line(1).walk.pages[0].left


def test_who_is_put_back_is_first_again_also_when_its_page_is_over() -> None:
    circle = Circle(names(3 * LANES_PAGE), random.Random(1))
    circle.walk = Walk()
    line = circle.line(40)
    granted, *missed = line.turns(40)
    walk = circle.walk = line.walk.served([granted, *missed])
    for _ in range(2 * LANES_PAGE):
        circle.receive(1)
    circle.walk = circle.walk.put_back(line, missed)
    assert [name for _ in missed for name in circle.receive(1)] == missed
    assert walk.put_back(line, ()) == walk


def test_a_page_that_grew_past_the_tally_loses_nobody() -> None:
    circle = Circle(names(LANES_PAGE), random.Random(1))
    circle.walk = Walk()
    circle.receive(1)
    left = set(circle.walk.pages[0].left)
    circle.figures |= {name: org(name, 10**6) for name in names(5 * LANES_PAGE)}
    served = [name for _ in left for name in circle.receive(1)]
    assert set(served) == left


def test_a_turn_fits_a_signed_column_and_does_not_change() -> None:
    assert turn_of("acme") == 1_631_397_986
    assert turn_of("") == 154_724_242
    assert all(0 <= turn_of(name) < 2**31 for name in names(1000))
    assert START < begin(0.0).next < begin(1 - 2**-53).next < (2**31, "")


class Waits:
    """Counts turns, and compares how long each organization waited with 2n of them. n is the most
    that waited at once meanwhile."""

    def __init__(self) -> None:
        self.turn = 0
        self.since: dict[str, tuple[int, int]] = {}

    def begins(self, name: str, waiting: int) -> None:
        self.since[name] = self.turn, waiting

    def waiting(self, number: int) -> None:
        self.since = {name: (turn, max(n, number)) for name, (turn, n) in self.since.items()}

    def served(self, name: str, waiting: int) -> None:
        self.turn += 1
        self.check(name)
        self.begins(name, waiting)

    def check(self, name: str) -> None:
        since, waiting = self.since[name]
        assert self.turn - since <= 2 * waiting


SMALL_AND_LARGE = st.sampled_from([1, 2, 3, 5, 17, 62, 63, 64, 65, 66, 100, 127, 128, 129])


@settings(max_examples=60)
@given(
    st.integers(0, 2**32 - 1),
    SMALL_AND_LARGE,
    st.sampled_from([1, 3, 10, 60, 300]),
    st.sampled_from(["nobody comes or goes", "others come and go"]),
)
def test_each_is_served_within_2n_turns_whatever_the_others_hold(
    seed: int, number: int, most: int, churn: str
) -> None:
    """Some hold far more than their quota all the time, claims are cut short, other engines take
    what was planned, and organizations come and go."""
    chance = random.Random(seed)
    circle, waits = Circle(names(number), chance), Waits()
    holds = {name: chance.choice([0, 0, 0, 5, 100]) for name in circle.figures}
    for name in circle.figures:
        waits.begins(name, number)
    for step in range(400):
        if waits.turn > 6 * number and step > 30:
            break
        if churn == "others come and go":
            come_and_go(circle, waits, chance, f"new{step}")
        for name in circle.figures:
            active = holds.get(name, 0) + chance.randint(0, 4)
            circle.figures[name] = org(name, chance.choice([1, 1, 2, 10, 1000]), active)
        limit, n = chance.randint(1, most), len(circle.figures)
        line = circle.line(limit)
        planned = list(line.turns(limit))
        assert planned
        if chance.random() < 0.3:
            planned = planned[: chance.randint(1, len(planned))]
        granted = [name for name in planned if chance.random() < 0.9]
        for name in granted:
            waits.served(name, n)
        for name in set(planned) - set(granted):
            waits.begins(name, n)  # it had nothing for a moment
        circle.walk = line.walk.served(granted)
    for name in circle.figures:
        waits.check(name)


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), SMALL_AND_LARGE, st.sampled_from([2, 8, 32]))
def test_receives_that_overlap_do_not_serve_the_same_ones_twice(
    seed: int, number: int, overlapping: int
) -> None:
    """Planned one by one, granted in any order, and cut short now and then."""
    chance = random.Random(seed)
    circle, waits = Circle(names(number), chance), Waits()
    # Those that fly together, at most three turns each, may land in any order, and twice if cut.
    n = number + 6 * overlapping
    for name in circle.figures:
        waits.begins(name, n)
    while waits.turn < 6 * n:
        flying: list[tuple[Line, list[str]]] = []
        for _ in range(overlapping):
            limit = chance.choice([1, 1, 5, 12])
            line = circle.line(limit)
            planned = list(line.turns(limit))
            assert 0 < len(planned) <= 3
            circle.walk = line.walk.served(planned)
            flying.append((line, planned))
        chance.shuffle(flying)
        for line, planned in flying:
            granted = planned[: chance.randint(1, len(planned))]
            for name in granted:
                waits.served(name, n)
            circle.walk = circle.walk.put_back(line, set(planned) - set(granted))
    for name in circle.figures:
        waits.check(name)


def come_and_go(circle: Circle, waits: Waits, chance: random.Random, name: str) -> None:
    for at in range(chance.randint(0, 2)):
        circle.figures[f"{name}-{at}"] = org(f"{name}-{at}", 1)
        waits.begins(f"{name}-{at}", 0)
    if chance.random() < 0.6 and len(circle.figures) > 1:
        gone = chance.choice(sorted(circle.figures))
        del circle.figures[gone], waits.since[gone]
    waits.waiting(len(circle.figures))


# ── The plan of one receive ─────────────────────────────────────────────────────────────────────


def line_of(*waiting: Waiting) -> Line:
    return look(Walk(), len(waiting), 10**6, 5).told(sorted(waiting), 0.5)


def nobody() -> Line:
    return look(Walk(), 0, 0, 5)


FULL = [line_of(org("a", 10**6)) for _ in PRIORITIES]


def amounts(portions: tuple[Portion, ...], borrowed: bool = False) -> list[int]:
    return [
        sum(p.amount for p in portions if p.priority == priority and p.borrowed == borrowed)
        for priority in (1, 2, 3, 4)
    ]


def test_a_plan_is_in_order_of_priority() -> None:
    portions = plan(50, Policy(max_active=100), (0, 0, 0, 0), FULL, 0.5)
    assert [(p.priority, p.amount) for p in portions] == [(1, 20), (2, 15), (3, 10), (4, 5)]


def test_no_priority_passes_its_cap_and_its_share_is_not_lent() -> None:
    only_low = [nobody(), nobody(), nobody(), line_of(org("a", 10**6))]
    assert amounts(plan(50, Policy(max_active=100), (0, 0, 0, 3), only_low, 0.5)) == [0, 0, 0, 7]
    assert plan(50, Policy(max_active=100), (0, 0, 0, 10), only_low, 0.5) == ()


def test_borrowing_takes_what_is_left_of_the_batch_and_says_so() -> None:
    policy = Policy(max_active=100, borrow=True)
    only_low = [nobody(), nobody(), nobody(), line_of(org("a", 10**6))]
    assert plan(50, policy, (0, 0, 0, 3), only_low, 0.5) == (
        Portion(4, "a", 7),
        Portion(4, "a", 43, borrowed=True),
    )
    assert plan(50, policy, (0, 0, 0, 99), only_low, 0.5) == (Portion(4, "a", 1, borrowed=True),)
    assert plan(50, policy, (0, 0, 0, 100), only_low, 0.5) == ()


def test_all_own_shares_are_granted_before_anything_is_borrowed() -> None:
    lines = [line_of(org("a", 60)), nobody(), nobody(), line_of(org("a", 60))]
    portions = plan(1000, Policy(max_active=200, borrow=True), (75, 0, 0, 15), lines, 0.5)
    assert amounts(portions) == [5, 0, 0, 5]
    assert amounts(portions, borrowed=True) == [55, 0, 0, 35]
    assert [p.borrowed for p in portions] == [False, False, True, True]


def test_a_priority_that_can_be_given_nothing_is_not_looked_at() -> None:
    assert needs(50, Policy(max_active=100), (40, 0, 15, 0)) == (0, 30, 5, 10)
    assert needs(50, Policy(max_active=100, borrow=True), (40, 0, 15, 0)) == (45, 45, 45, 45)
    assert needs(50, Policy(), (40, 0, 15, 0)) == (50, 50, 50, 50)
    assert nobody().asks is None


ACTIVE = st.tuples(*[st.integers(0, 60)] * 4)


@given(
    st.integers(1, 300),
    st.none() | st.integers(1, 200),
    st.booleans(),
    ACTIVE,
    st.tuples(LINE, LINE, LINE, LINE),
    CHANCE,
)
def test_a_plan_takes_what_it_may_and_never_too_much(
    limit: int,
    max_active: int | None,
    borrow: bool,
    active: Four,
    waiting: tuple[list[Waiting], ...],
    chance: float,
) -> None:
    policy = Policy(max_active=max_active, borrow=borrow)
    lines = [line_of(*line) for line in waiting]
    portions = plan(limit, policy, active, lines, chance)
    assert portions == plan(limit, policy, active, lines, chance)
    for line, own, lent in zip(lines, amounts(portions), amounts(portions, True), strict=True):
        assert own + lent <= line.available
        assert own + lent <= line.need
    room = [line.available for line in lines]
    if max_active is not None:
        most = caps(max_active, policy.shares, policy.min_active)
        room = [min(has, max(0, most[p] - active[p])) for p, has in enumerate(room)]
        assert all(own <= has for own, has in zip(amounts(portions), room, strict=True))
    count = batch(limit, max_active, sum(active))
    reachable = sum(line.available for line in lines) if borrow else sum(room)
    assert sum(p.amount for p in portions) == min(count, reachable)
    assert all(p.amount > 0 for p in portions)
    lanes = [(p.priority, p.organization, p.borrowed) for p in portions]
    assert len(set(lanes)) == len(lanes)


# ── What comes of it ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("max_active", bench.SIZES)
def test_all_priorities_get_their_shares_of_slots_freed_one_by_one(
    max_active: int | None, run_seed: int, figure: Callable[[str], None]
) -> None:
    points, peak = bench.all_loaded(max_active, FEWER_COMPLETIONS, run_seed)
    shown = " / ".join(f"{point:.1f}" for point in points)
    figure(f"fairness: maxActive {max_active or 'none'}: {shown} % of {FEWER_COMPLETIONS:,}")
    assert all(point >= share / 2 for point, share in zip(points, SHARES, strict=True))
    if max_active != 10:  # there the minimum caps the first priority at 5
        assert points == pytest.approx(SHARES, abs=POINTS)
    if max_active is not None:
        most = caps(max_active, SHARES, Policy().min_active)
        assert all(held <= cap for held, cap in zip(peak, most, strict=True))
        if max_active in (1, 100):
            assert tuple(peak) == most


@pytest.mark.parametrize("max_active", [1, 3, 10, 100])
@pytest.mark.parametrize("priority", [1, 2, 3, 4])
def test_a_cap_is_reached_and_not_passed(max_active: int, priority: int) -> None:
    """Also when nothing else waits: what others do not use is not given to it."""
    broker = bench.Broker(Policy(max_active=max_active), seed=1)
    broker.lanes[priority - 1].add("one", bench.PLENTY)
    while broker.receive(1000):
        pass
    assert broker.peak[priority - 1] == caps(max_active, SHARES, 5)[priority - 1]


def test_with_borrowing_one_priority_takes_everything_and_not_more() -> None:
    broker = bench.Broker(Policy(max_active=100, borrow=True), seed=1)
    broker.lanes[3].add("one", bench.PLENTY)
    while broker.receive(1000):
        pass
    assert broker.peak == [0, 0, 0, 100]


@pytest.mark.parametrize(("limit", "claims"), [(1, 5_000), (10, 30_000)])
def test_a_thousand_organizations_are_served_in_turn_though_one_has_most(
    limit: int, claims: int, run_seed: int, figure: Callable[[str], None]
) -> None:
    load = bench.zipf(1_000, 40_000, first=0.6)
    worst, taken = bench.drain(Policy(), load, limit, claims, run_seed)
    index = bench.jain_of(taken, load)
    figure(f"fairness: {claims:,} claims by {limit}: longest wait {worst:.2f} n, Jain {index:.4f}")
    assert worst <= 2
    assert index >= 0.95


def test_the_index_knows_fair_from_unfair() -> None:
    assert bench.jain([1, 1, 1, 1]) == 1
    assert bench.jain([1, 0, 0, 0]) == 0.25
    assert bench.fair_parts({"a": 1, "b": 100, "c": 100}, 21) == {"a": 1, "b": 10, "c": 10}
