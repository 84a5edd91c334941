"""The arithmetic of fairness: how many each priority gets, and which organizations within it.

Chance comes in as a float, 0 <= chance < 1; the same figures and the same chance give the same plan.
A receive is planned in this order:

    needs()              how many each priority could be given at most
    look(), Line.told()  for each that needs any: pages of the tally, until the line is long enough
    plan()               draws() among the priorities, turns() within each
    Walk.served()        who was granted something has had its turn
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from fairway.core import limits

Four = tuple[int, int, int, int]  # one for each priority, the most urgent first
Cursor = tuple[int, str]  # a place on the circle of organizations: (turn, organization)

PRIORITIES: Final = range(4)
REMEMBERED: Final = 4096  # organizations whose turn need not be computed again
TURN_BITS: Final = 31  # a turn fits the signed integer of every store
START: Final[Cursor] = (-1, "")  # before the first organization of the circle
LAST_NAME: Final = "\U0010ffff"  # behind every organization of the same turn
PAGES: Final = 2  # of one line: the rest of the page that is walked, and the one after it
LAPS: Final = 2  # ends of the circle that one line may meet: from anywhere, once all around


class Policy(Struct, frozen=True, gc=False, kw_only=True):
    """What the settings of a queue are for one service."""

    shares: Four = (40, 30, 20, 10)  # their sum is 100
    min_active: int = 5
    max_active: int | None = None
    borrow: bool = False


class Waiting(Struct, frozen=True, gc=False, order=True):
    """An organization in one priority, as the tally says."""

    turn: int
    organization: str
    available: int
    active: int = 0  # leases of this priority that it holds

    @property
    def cursor(self) -> Cursor:
        return self.turn, self.organization


class Portion(Struct, frozen=True, gc=False):
    """What one receive asks of one lane. What is borrowed is not bound by the priority's cap."""

    priority: int
    organization: str
    amount: int
    borrowed: bool = False


# ── Among the priorities ────────────────────────────────────────────────────────────────────────


def caps(max_active: int, shares: Four, min_active: int) -> Four:
    """How many leases of each priority a service may hold. What rounding leaves stays unused."""
    return _four(min(max_active, max(1, min_active, max_active * share // 100)) for share in shares)


def batch(limit: int, max_active: int | None, active: int) -> int:
    """How many draws one receive makes."""
    if max_active is None:
        return limit
    return max(0, min(limit, max(1, max_active // 2), max_active - active))


def needs(limit: int, policy: Policy, active: Four) -> Four:
    """The most that each priority could be given; one that needs none is not looked at."""
    count = batch(limit, policy.max_active, sum(active))
    if policy.borrow:
        return count, count, count, count
    return _four(min(count, room) for room in _rooms(policy, active, count))


def draws(count: int, weights: Four, room: Four, chance: float) -> Four:
    """Divides `count` by the weights, nobody beyond its room: min(count, sum of room) in all.

    Whoever has less room than it would be given gets all its room, and the rest is divided among
    the others in the same way. What is then a fraction is rounded up or down by systematic
    sampling, with one random start: each gets its expected number, exactly on average and ± 1 each
    time. A weight of 0 is given only what nobody else has room for.
    """
    drawn = [0, 0, 0, 0]
    left = min(count, sum(room))
    unsure = [p for p in PRIORITIES if room[p] > 0]
    weight, whole = _weighed(unsure, weights)
    while left and (full := [p for p in unsure if room[p] * whole <= left * weight[p]]):
        for p in full:
            drawn[p] = room[p]
            left -= room[p]
        unsure = [p for p in unsure if p not in full]
        weight, whole = _weighed(unsure, weights)
    # In units of 1/whole, so exactly: a draw falls at start, start + whole, start + 2 × whole …
    start, reach, before = int(chance * whole), 0, 0
    for p in unsure:
        reach += left * weight[p]
        until = -((start - reach) // whole)
        drawn[p] = until - before
        before = until
    return _four(drawn)


def _weighed(priorities: Sequence[int], weights: Four) -> tuple[Four, int]:
    """Their weights and the sum of them; alike, when none of them has a weight."""
    whole = sum(weights[p] for p in priorities)
    return (weights, whole) if whole else ((1, 1, 1, 1), len(priorities))


def _rooms(policy: Policy, active: Four, plenty: int) -> Four:
    """What each priority may still take below its cap; `plenty` where there are no caps."""
    if policy.max_active is None:
        return plenty, plenty, plenty, plenty
    most = caps(policy.max_active, policy.shares, policy.min_active)
    return _four(max(0, cap - held) for cap, held in zip(most, active, strict=True))


def _four(numbers: Iterable[int]) -> Four:
    first, second, third, fourth = numbers
    return first, second, third, fourth


# ── Among the organizations of one priority ─────────────────────────────────────────────────────


@lru_cache(maxsize=REMEMBERED)
def turn_of(organization: str) -> int:
    """Its place on the circle: fixed, and without meaning, so that neighbours have nothing in common."""
    digest = blake2b(organization.encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") >> (32 - TURN_BITS)


def turns(
    count: int,
    waiting: int,
    min_active: int,
    rest: Sequence[Waiting],
    ahead: Sequence[Waiting] = (),
) -> dict[str, int]:
    """Divides the draws of a priority, in walking order: organization → how many, first one first.

    First each up to its quota, then again without one. Where the quotas of `rest` do not take up
    the draws, its page comes to its end in this receive: then even those that hold their quota
    already are given one, because a page is left only when everybody on it has had its turn.
    """
    everybody = (*rest, *ahead)
    quota = _quota(count, max(waiting, len(everybody)), min_active)
    ends_page = bool(ahead) and _below_quota(rest, quota) < count
    granted: dict[str, int] = {}
    left = count
    for at, one in enumerate(everybody):
        if not left:
            break
        least = 1 if ends_page and at < len(rest) else 0
        if (amount := min(max(quota - one.active, least), one.available, left)) > 0:
            granted[one.organization] = amount
            left -= amount
    for one in everybody:
        if not left:
            break
        so_far = granted.get(one.organization, 0)
        if (amount := min(one.available - so_far, left)) > 0:
            granted[one.organization] = so_far + amount
            left -= amount
    return granted


def _quota(count: int, waiting: int, min_active: int) -> int:
    return max(1, min_active, count // max(1, waiting))


def _below_quota(page: Iterable[Waiting], quota: int) -> int:
    return sum(min(max(0, quota - one.active), one.available) for one in page)


# ── The walk ────────────────────────────────────────────────────────────────────────────────────


class Page(Struct, frozen=True, gc=False):
    """A piece of the circle, and who on it has not had its turn yet, in walking order."""

    after: Cursor
    end: Cursor
    left: tuple[str, ...]
    begun: bool = False  # somebody on it has had its turn


class Walk(Struct, frozen=True, gc=False):
    """How far one engine is on its way through the organizations of one target and priority.

    They lie on a circle, by (turn, organization). A page of it is shuffled once and walked to its
    end, across receives. So between two turns of one organization lie at most the others of its
    page twice, and those outside of it once: with n waiting, fewer than 2n turns.
    """

    next: Cursor = START  # the page to take next lies behind it
    pages: tuple[Page, ...] = ()  # taken and not yet walked to the end, in this order

    def served(self, organizations: Container[str]) -> Walk:
        """These were granted something: that was their turn, on the first page that names them.

        Whoever was not keeps its place. But a page is over once somebody behind it was granted
        something: who is left on it had nothing.
        """
        pages: list[Page] = []
        named: set[str] = set()
        for page in self.pages:
            left = tuple(name for name in page.left if name in named or name not in organizations)
            named.update(page.left)
            if left == page.left:
                pages.append(page)
            else:
                pages = [Page(page.after, page.end, left, begun=True)]
        return replace(self, pages=tuple(page for page in pages if page.left))

    def put_back(self, line: Line, organizations: Container[str]) -> Walk:
        """For receives that overlap. Two of them must not plan the same turns, so each calls
        `served` for whom it planned before the next one looks; and those to whom the claim then
        granted nothing are given their turn back, as the first ones."""
        missed = [one for page in line.found for one in page if one.organization in organizations]
        if not missed:
            return self
        first, last = min(missed), max(missed)
        names = tuple(one.organization for one in missed)
        page = Page((first.turn - 1, LAST_NAME), last.cursor, names, begun=True)
        return replace(self, pages=(page, *self.pages))


class Line(Struct, frozen=True, gc=False, kw_only=True):
    """Who waits in one priority, in walking order, as far as one receive needs to know."""

    walk: Walk
    waiting: int  # organizations with something available, by the tally
    need: int
    min_active: int
    found: tuple[tuple[Waiting, ...], ...] = ()  # the first pages of the walk, with their figures
    laps: int = 0

    @property
    def asks(self) -> Cursor | None:
        """The tally is to be read behind this, LANES_PAGE organizations; None: no more of it."""
        if self._is_long_enough():
            return None
        known = self.walk.pages[len(self.found) :]
        return known[0].after if known else self.walk.next

    def told(self, rows: Sequence[Waiting], chance: float) -> Line:
        """The tally's answer, by (turn, organization), those with nothing available included: only
        fewer than a page, or none, mean that the circle ends, and then it is begun again once."""
        asked = self.asks
        assert asked is not None
        is_last = len(rows) < limits.LANES_PAGE
        known = self.walk.pages[len(self.found) :]
        line = self._seen_again(known[0], rows) if known else self._taken(asked, rows, chance)
        # The whole circle is at hand: the next page is read from the same rows.
        return line.told(rows, chance) if is_last and asked == START == line.asks else line

    def turns(self, count: int) -> dict[str, int]:
        return turns(count, self.waiting, self.min_active, *self.found) if count else {}

    @property
    def available(self) -> int:
        return sum(one.available for page in self.found for one in page)

    def _is_long_enough(self) -> bool:
        if self.need <= 0 or len(self.found) == PAGES or self.laps == LAPS:
            return True
        known = [one for page in self.found for one in page]
        if known and len(known) >= self.waiting:
            return True
        quota = _quota(self.need, max(self.waiting, len(known)), self.min_active)
        return _below_quota(known, quota) >= self.need

    def _seen_again(self, page: Page, rows: Sequence[Waiting]) -> Line:
        """A page taken by an earlier receive: those with nothing left are passed over. If so many
        joined it since that the tally does not reach its end, it goes on as two pages."""
        there = {one.organization: one for one in _ready(rows) if one.cursor <= page.end}
        seen = tuple(there[name] for name in page.left if name in there)
        later = self.walk.pages[len(self.found) + 1 :]
        if len(rows) < limits.LANES_PAGE or rows[-1].cursor >= page.end:
            return self._with(page, seen, later, self.walk.next)
        cut = rows[-1].cursor
        if unseen := tuple(name for name in page.left if name not in there):
            later = (replace(page, after=cut, left=unseen), *later)
        return self._with(replace(page, end=cut), seen, later, self.walk.next)

    def _taken(self, after: Cursor, rows: Sequence[Waiting], chance: float) -> Line:
        is_last = len(rows) < limits.LANES_PAGE
        end = rows[-1].cursor if rows else after
        seen = _shuffled(_ready(rows), chance)
        line = self._with(Page(after, end, ()), seen, (), START if is_last else end)
        return replace(line, laps=self.laps + is_last)

    def _with(
        self,
        page: Page,
        seen: tuple[Waiting, ...],
        later: tuple[Page, ...],
        following: Cursor,
    ) -> Line:
        earlier = self.walk.pages[: len(self.found)]
        if not seen:
            return replace(self, walk=Walk(following, (*earlier, *later)))
        page = replace(page, left=tuple(one.organization for one in seen))
        # Around a small circle one receive may meet somebody twice: it is in line once, and has
        # its turn on the second page in another receive.
        before = {one.organization for known in self.found for one in known}
        new = tuple(one for one in seen if one.organization not in before)
        walk = Walk(following, (*earlier, page, *later))
        return replace(self, walk=walk, found=(*self.found, new))


def begin(chance: float) -> Walk:
    """Anywhere on the circle, so that many engines do not all serve the same ones first."""
    return Walk((int(chance * 2**TURN_BITS), ""))


def look(walk: Walk, waiting: int, need: int, min_active: int) -> Line:
    """The line of one priority, of which nothing is known yet. A page nobody of which has had its
    turn is taken again: others may have joined it."""
    following, pages = walk.next, list(walk.pages)
    while pages and not pages[-1].begun:
        following = pages.pop().after
    walk = Walk(following, tuple(pages))
    return Line(walk=walk, waiting=waiting, need=need, min_active=min_active)


def _ready(rows: Iterable[Waiting]) -> Iterable[Waiting]:
    return (one for one in rows if one.available > 0)


def _shuffled(page: Iterable[Waiting], chance: float) -> tuple[Waiting, ...]:
    key = chance.hex().encode()

    def lot(one: Waiting) -> bytes:
        return blake2b(one.organization.encode(), digest_size=8, key=key).digest()

    return tuple(sorted(page, key=lot))


# ── Together ────────────────────────────────────────────────────────────────────────────────────


def plan(
    limit: int, policy: Policy, active: Four, lines: Sequence[Line], chance: float
) -> tuple[Portion, ...]:
    """What one receive asks for, in the order of granting: by priority, what is borrowed last.
    Never more than the lines hold; stale ones take too little, and the store guards the caps."""
    count = batch(limit, policy.max_active, sum(active))
    available = _four(line.available for line in lines)
    rooms = _rooms(policy, active, count)
    own = draws(count, policy.shares, _four(map(min, available, rooms)), chance)
    extra = (0, 0, 0, 0)
    if policy.borrow:
        unused = _four(has - drawn for has, drawn in zip(available, own, strict=True))
        extra = draws(count - sum(own), policy.shares, unused, chance)
    portions: list[Portion] = []
    for p, line in enumerate(lines):
        portions += _portions(p + 1, line.turns(own[p] + extra[p]), own[p])
    return tuple(sorted(portions, key=lambda portion: portion.borrowed))


def _portions(priority: int, granted: dict[str, int], own: int) -> Iterable[Portion]:
    """The first `own` of them are the priority's own, what follows is borrowed."""
    for organization, amount in granted.items():
        mine = min(amount, own)
        own -= mine
        if mine:
            yield Portion(priority, organization, mine)
        if amount > mine:
            yield Portion(priority, organization, amount - mine, borrowed=True)
