"""Each promise of store/contract.py, on every store."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from fairway.core.events import Event, unpack
from fairway.core.records import (
    Change,
    Claim,
    Conflict,
    Delivery,
    Demand,
    Entry,
    EntryKey,
    Filter,
    Front,
    Hold,
    Key,
    Lane,
    Lease,
    Memo,
    Message,
    Place,
    Put,
    Removal,
    Stamp,
    State,
)
from fairway.store.contract import Store
from tests.suite.conftest import Hand

LANE = Lane(3, 0, "")
FAR = 10**18


def born(
    id: str, at: int, *, priority: int = 3, organization: str = "", sequence: int = 0
) -> Delivery:
    return Delivery(
        target="q",
        organization=organization,
        id=id,
        generation=1,
        place=Place.WAITING,
        state=State.QUEUED,
        priority=priority,
        placed=at,
        sequence=sequence,
        at=at,
        expires_at=FAR,
        send=f"send-{id}",
        size=1,
        fingerprint=b"f",
    )


def message(d: Delivery) -> Message:
    return Message(
        send=d.send,
        id=d.id,
        organization=d.organization,
        created=1,
        mime_type="text/plain",
        body=b"x",
    )


def event(kind: str) -> Event:
    return Event(at=1, letter="Q", kind=kind, target="q", organization="", id="x")


def new(d: Delivery) -> Change:
    return Change((Put(d),), (event(f"born {d.id}"),), (message(d),))


async def told(store: Store) -> list[str]:
    state = (await store.log()).shards[0]
    blocks = [b for page in [p async for p in store.read_log(0, 1, state.latest)] for b in page]
    assert [b.first for b in blocks] == [
        1 + sum(c.count for c in blocks[:i]) for i in range(len(blocks))
    ]
    events = [e.kind for b in blocks for e in unpack(b.data)]
    assert len(events) == state.latest
    return events


def claim(
    clock: Hand, limit: int, *demands: Demand, room: int = 10**6, name: bytes = b"c"
) -> Claim:
    lease = Lease(name * 12, clock.now, 10)
    return Claim(demands, Stamp(lease, clock.now, clock.now + 10, limit, room))


async def granted(store: Store, asked: Claim) -> list[str]:
    [grants] = await store.claim([asked])
    return [grant.delivery.id for grant in grants]


def entry(name: str, version: int, value: bytes = b"v", kind: str = "head") -> Entry:
    return Entry(kind, name, version, value)


async def test_what_was_put_is_found_whole(store: Store, clock: Hand) -> None:
    one = born("a", clock.now, priority=1, organization="ü")
    assert await store.commit([new(one)], clock.now) == [None]
    assert await store.find([one.the_key, born("b", 1).the_key]) == [one, None]
    assert await store.messages(["send-a", "none"]) == [message(one), None]
    [[grant]] = await store.claim([claim(clock, 1, Demand("q", Lane(1, 0, "ü"), 1))])
    assert await store.find([one.the_key]) == [grant.delivery]
    ended = replace(
        grant.delivery, place=Place.DEAD, state=State.REJECTED, memo=Memo(errors=2, text="é")
    )
    assert await store.commit([Change((Put(ended, grant.delivery),), ())], clock.now) == [None]
    assert await store.find([one.the_key]) == [ended]


async def test_a_put_over_something_else_is_a_conflict_that_brings_it_back(
    store: Store, clock: Hand
) -> None:
    one = born("a", clock.now)
    await store.commit([new(one)], clock.now)
    wrong = {
        "there is one": Put(one),
        "another version of it": Put(one, replace(one, version=2)),
        "another generation": Put(one, replace(one, generation=2)),
        "it is not leased": Put(one, replace(one, place=Place.LEASED)),
        "it has not ended": Put(one, replace(one, place=Place.HISTORY)),
    }
    for why, put in wrong.items():
        [conflict] = await store.commit([Change((put,), (event("never"),))], clock.now)
        assert conflict == Conflict({one.the_key: one}), why
    [conflict] = await store.commit([Change((Put(born("b", 1), one),), ())], clock.now)
    assert conflict == Conflict({born("b", 1).the_key: None})
    assert await told(store) == ["born a"]


async def test_a_change_is_all_or_nothing_and_the_others_go_on(store: Store, clock: Hand) -> None:
    one, two, three = (born(id, clock.now) for id in "abc")
    await store.commit([new(two)], clock.now)
    both = Change((Put(one), Put(two)), (event("never"),), (message(one),))
    conflict, done = await store.commit([both, new(three)], clock.now)
    assert conflict == Conflict({one.the_key: None, two.the_key: two})
    assert done is None
    assert await store.find([one.the_key, three.the_key]) == [None, three]
    assert await store.messages([one.send]) == [None]
    assert await told(store) == ["born b", "born c"]


async def test_the_puts_of_a_change_build_on_each_other(store: Store, clock: Hand) -> None:
    one = born("a", clock.now)
    await store.commit([new(one)], clock.now)
    ended = replace(one, place=Place.HISTORY, state=State.OBSOLETE)
    newer = replace(one, generation=2, send="send-b")
    twice = Change(
        (Put(ended, one), Put(newer, ended)), (), (replace(message(one), send="send-b"),)
    )
    assert await store.commit([twice], clock.now) == [None]
    assert await store.find([one.the_key]) == [newer]
    assert await granted(store, claim(clock, 9, Demand("q", LANE, 9))) == ["a"]


async def test_a_new_version_leaves_the_one_at_rest(store: Store, clock: Hand) -> None:
    one = born("a", clock.now)
    ended = replace(one, place=Place.HISTORY, state=State.COMPLETED)
    await store.commit([new(one)], clock.now)
    await store.commit([Change((Put(ended, one),), ())], clock.now)
    second = replace(one, generation=2)
    assert await store.commit([Change((Put(second, ended),), ())], clock.now) == [None]
    gone = replace(second, place=Place.DEAD, state=State.REJECTED)
    await store.commit([Change((Put(gone, second),), ())], clock.now)
    assert await store.find([one.the_key]) == [gone]


async def test_a_lease_guards_by_token_version_and_deadline(store: Store, clock: Hand) -> None:
    await store.commit([new(born("a", clock.now))], clock.now)
    [[grant]] = await store.claim([claim(clock, 1, Demand("q", LANE, 1))])
    lease = grant.delivery
    ended = replace(lease, place=Place.HISTORY, state=State.COMPLETED)

    async def refused(was: Delivery, now: int, hold: Hold = Hold.RUNS) -> bool:
        [conflict] = await store.commit([Change((Put(ended, was, hold),), ())], now)
        return conflict is not None

    assert await refused(replace(lease, token=lease.token + 1), clock.now)
    assert await refused(replace(lease, version=lease.version + 1), clock.now)
    assert await refused(lease, lease.at)  # over by the time given
    assert await refused(lease, clock.now, Hold.OVER)  # not over yet
    before = clock.now
    clock.now = lease.at
    assert await refused(lease, before)  # over by the store's own clock
    assert not await refused(lease, before, Hold.OVER)


async def test_a_claim_takes_the_first_in_line_of_each_lane(store: Store, clock: Hand) -> None:
    line = [
        born("c", clock.now - 2, sequence=1),
        born("b", clock.now - 2, sequence=2),
        born("a", clock.now - 1, sequence=0),
        born("d", clock.now + 5),
        born("z", clock.now - 9, priority=1, organization="o"),
    ]
    later = replace(born("released", clock.now - 8), at=clock.now + 5)
    await store.commit([new(d) for d in [*line, later]], clock.now)
    two = claim(clock, 2, Demand("q", Lane(1, 0, "o"), 9), Demand("q", LANE, 9))
    assert await granted(store, two) == ["z", "c"]
    assert await granted(store, claim(clock, 9, Demand("q", LANE, 1))) == ["b"]
    assert await granted(store, claim(clock, 9, Demand("q", LANE, 9))) == ["a"]
    assert await granted(store, claim(clock, 9, Demand("q", LANE, 9))) == []
    clock.now += 5
    assert await granted(store, claim(clock, 9, Demand("q", LANE, 9))) == ["released", "d"]
    assert (await store.tally("q", 3, (-1, ""), 9)).fronts == []


async def test_a_claim_stops_before_the_bodies_grow_too_large(store: Store, clock: Hand) -> None:
    bodies = [replace(born(str(i), clock.now, sequence=i), size=40) for i in range(5)]
    await store.commit([new(d) for d in bodies], clock.now)
    demand = Demand("q", LANE, 9)
    assert await granted(store, claim(clock, 9, demand, room=100)) == ["0", "1"]
    assert await granted(store, claim(clock, 9, demand, room=1)) == ["2"]


async def test_claims_of_one_call_share_nothing(store: Store, clock: Hand) -> None:
    await store.commit([new(born(str(i), clock.now, sequence=i)) for i in range(5)], clock.now)
    demand = Demand("q", LANE, 3)
    first, second, third = await store.claim(
        [claim(clock, 3, demand, name=name) for name in (b"a", b"b", b"c")]
    )
    assert [[g.delivery.id for g in grants] for grants in (first, second, third)] == [
        ["0", "1", "2"],
        ["3", "4"],
        [],
    ]
    assert first[0].message.body == b"x"
    assert (await told(store))[5:] == ["leased"] * 5


async def test_concurrent_claims_never_share_a_delivery(store: Store, clock: Hand) -> None:
    await store.commit([new(born(str(i), clock.now)) for i in range(100)], clock.now)
    demand = Demand("q", LANE, 7)
    answers = await asyncio.gather(
        *(store.claim([claim(clock, 7, demand, name=bytes([i]))]) for i in range(20))
    )
    ids = [grant.delivery.id for [grants] in answers for grant in grants]
    assert sorted(ids) == sorted(map(str, range(100)))


async def test_what_is_due_is_listed_longest_first(store: Store, clock: Hand) -> None:
    for id in "ab":
        await store.commit([new(born(id, clock.now))], clock.now)
        await store.claim([claim(clock, 1, Demand("q", LANE, 1))])
        clock.now += 3
    assert [d.id for d in await store.due(clock.now, 9)] == []
    clock.now += 4
    assert [d.id for d in await store.due(clock.now, 9)] == ["a"]
    clock.now += 9
    assert [d.id for d in await store.due(clock.now, 9)] == ["a", "b"]
    assert [d.id for d in await store.due(clock.now, 1)] == ["a"]
    await store.commit([new(replace(born("c", clock.now), expires_at=clock.now - 8))], clock.now)
    assert [d.id for d in await store.due(clock.now, 9)] == ["a", "c", "b"]


async def test_the_log_is_dense_and_read_by_closed_ranges(store: Store, clock: Hand) -> None:
    state = await store.log()
    assert (state.shards[0].earliest, state.shards[0].latest) == (1, 0)
    assert [p async for p in store.read_log(0, 1, 0)] == []
    for i in range(12):
        events = tuple(event(f"{i}.{j}") for j in range(i % 4))
        await store.commit([Change((), events)], clock.now)
    everything = await told(store)
    assert len(everything) == 18
    for first in range(1, 19):
        for last in range(first, 19):
            pages = [p async for p in store.read_log(0, first, last)]
            blocks = [b for page in pages for b in page]
            assert blocks[0].first <= first < blocks[0].first + blocks[0].count
            assert blocks[-1].first <= last < blocks[-1].first + blocks[-1].count
            kinds = [e.kind for b in blocks for e in unpack(b.data)]
            skipped = first - blocks[0].first
            assert kinds[skipped : skipped + last - first + 1] == everything[first - 1 : last]
    assert (await store.log()).log == state.log


@pytest.mark.parametrize("kind", ["sent", "returned"])
async def test_a_wait_ends_when_something_may_be_ready(
    store: Store, clock: Hand, kind: str
) -> None:
    await store.commit([new(born("a", clock.now))], clock.now)
    [[grant]] = await store.claim([claim(clock, 1, Demand("q", LANE, 1))])
    seen = await store.wait("q", -1, 0)
    assert await store.wait("q", seen, 0.01) == seen
    waiting = asyncio.create_task(store.wait("q", seen, 20))
    await asyncio.sleep(0.01)
    back = replace(grant.delivery, place=Place.WAITING, state=State.RETRY)
    put = Put(born("b", clock.now)) if kind == "sent" else Put(back, grant.delivery)
    await store.commit([Change((put,), ())], clock.now)
    assert await asyncio.wait_for(waiting, 5) != seen
    assert await store.wait("q", seen, 20) != seen  # what came before the wait is not missed


async def test_entries_are_guarded_by_their_version(store: Store, clock: Hand) -> None:
    first, second = entry("a", 5), entry("a", 6, b"w")
    assert await store.commit([Change((Put(first),), ())], clock.now) == [None]
    assert await store.commit([Change((Put(first),), ())], clock.now) == [
        Conflict({first.the_key: first})
    ]
    assert await store.commit([Change((Put(second, first),), ())], clock.now) == [None]
    [stale] = await store.commit([Change((Put(entry("a", 7), first),), ())], clock.now)
    assert stale == Conflict({first.the_key: second})
    assert await store.find([EntryKey("head", "a"), EntryKey("name", "a")]) == [second, None]


async def test_a_change_holds_and_removes_entries(store: Store, clock: Hand) -> None:
    there, absent = entry("a", 5), EntryKey("head", "b")
    await store.commit([Change((Put(there),), ())], clock.now)

    async def goes(change: Change) -> bool:
        return await store.commit([change], clock.now) == [None]

    assert await goes(Change((), (), holds=((there.the_key, 5), (absent, 0))))
    assert not await goes(Change((), (), holds=((there.the_key, 4),)))
    assert not await goes(Change((), (), holds=((absent, 1),)))
    assert not await goes(Change((), (), removes=(Removal(entry("a", 4)),)))
    assert not await goes(Change((), (), removes=(Removal(entry("b", 1)),)))
    both = Change(
        (Put(born("x", clock.now)),), (event("never"),), removes=(Removal(entry("b", 1)),)
    )
    assert not await goes(both)
    assert await store.find([Key("q", "", "x")]) == [None]
    assert await goes(Change((), (), removes=(Removal(there),)))
    assert await store.find([there.the_key]) == [None]


async def test_entries_are_listed_by_kind_and_prefix(store: Store, clock: Hand) -> None:
    names = ["q\na", "q\nb", "qq\na", "r\na"]
    puts = [Put(entry(name, 1)) for name in names] + [Put(entry("q\na", 1, kind="name"))]
    await store.commit([Change(tuple(puts), ())], clock.now)

    async def listed(prefix: str, after: str = "", limit: int = 9) -> list[str]:
        return [e.name for e in await store.entries("head", prefix, after, limit)]

    assert await listed("q\n") == ["q\na", "q\nb"]
    assert await listed("q\n", "q\na") == ["q\nb"]
    assert await listed("", limit=3) == names[:3]
    assert await listed("", "r\na") == []


async def test_a_version_is_written_beside_what_is_open(store: Store, clock: Hand) -> None:
    one = born("a", clock.now)
    await store.commit([new(one)], clock.now)
    side = replace(one, generation=2, place=Place.HISTORY, state=State.UNCHANGED, send="send-b")
    beside = Change((Put(side, beside=True),), (), (replace(message(one), send="send-b"),))
    assert await store.commit([beside], clock.now) == [None]
    assert await store.find([one.the_key, replace(one.the_key, generation=2)]) == [one, side]
    [conflict] = await store.commit([beside], clock.now)
    assert conflict is not None


async def test_a_body_goes_when_nobody_needs_it_and_the_message_with_its_last_delivery(
    store: Store, clock: Hand
) -> None:
    one = born("a", clock.now)
    two = replace(one, target="r")
    shared = replace(message(one), holders=2)
    await store.commit([Change((Put(one), Put(two)), (), (shared,))], clock.now)
    for delivery, body in ((one, b"x"), (two, None)):
        ended = replace(delivery, version=2, place=Place.HISTORY, state=State.OBSOLETE)
        put = Put(ended, delivery, forgets=one.send)
        assert await store.commit([Change((put,), ())], clock.now) == [None]
        [left] = await store.messages([one.send])
        assert left is not None
        assert left.body == body
    for target in "qr":
        assert await store.messages([one.send]) != [None]
        [rests] = await store.oldest(Place.HISTORY, target, clock.now + 1, 9)
        assert await store.commit(
            [Change((), (), removes=(Removal(rests.delivery),))], clock.now
        ) == [None]
    assert await store.messages([one.send]) == [None]


async def test_the_oldest_at_rest_are_listed_and_removed(store: Store, clock: Hand) -> None:
    for age, id in ((9, "a"), (8, "b"), (1, "c")):
        waits = born(id, clock.now - age)
        rests = replace(waits, version=2, place=Place.DEAD, state=State.REJECTED)
        await store.commit([new(waits)], clock.now)
        await store.commit([Change((Put(rests, waits),), ())], clock.now)

    async def listed(place: Place, limit: int) -> list[Delivery]:
        found = await store.oldest(place, "q", clock.now - 5, limit)
        assert [one.message.id for one in found] == [one.delivery.id for one in found]
        return [one.delivery for one in found]

    assert await listed(Place.HISTORY, 9) == []
    assert await store.oldest(Place.DEAD, "q", clock.now - 9, 9) == []  # before, not at
    [first] = await listed(Place.DEAD, 1)
    assert [d.id for d in await listed(Place.DEAD, 9)] == ["a", "b"]
    [load] = await store.loads(["q"])
    assert (load.queued, load.history, load.dead) == (0, 0, 3)
    [stale] = await store.commit(
        [Change((), (), removes=(Removal(replace(first, version=9)),))], clock.now
    )
    assert stale is not None
    gone = Change((), (event("removed"),), removes=(Removal(first),))
    assert await store.commit([gone], clock.now) == [None]
    [again] = await store.commit([gone], clock.now)
    assert again == Conflict({replace(first.the_key, generation=1): None})
    assert [d.id for d in await listed(Place.DEAD, 9)] == ["b"]
    assert await store.loads(["q"]) == [replace(load, dead=2)]


async def test_the_log_is_forgotten_by_whole_blocks(store: Store, clock: Hand) -> None:
    for i in range(3):
        await store.commit([Change((), (event(f"{i}a"), event(f"{i}b")))], clock.now)
    assert await store.forget_log(0, 4) == 3
    state = (await store.log()).shards[0]
    assert (state.earliest, state.latest) == (3, 6)
    pages = [p async for p in store.read_log(0, 3, 6)]
    assert [e.kind for page in pages for b in page for e in unpack(b.data)] == [
        "1a",
        "1b",
        "2a",
        "2b",
    ]
    assert await store.forget_log(0, 99) == 7
    await store.commit([Change((), (event("after"),))], clock.now)
    assert (await store.log()).shards[0].latest == 7


async def test_counters_bound_a_claim_and_follow_the_leases(store: Store, clock: Hand) -> None:
    await store.commit([new(born(str(i), clock.now, sequence=i)) for i in range(6)], clock.now)
    of_priority, of_all = "q\ndefault\n3", "q\ndefault\n*"

    async def take(full_at: dict[str, int], *caps: str) -> list[Delivery]:
        asked = claim(clock, 9, Demand("q", LANE, 9, caps))
        bounded = replace(asked, stamp=replace(asked.stamp, full_at=full_at))
        [grants] = await store.claim([bounded])
        assert not isinstance(grants, Conflict)
        return [grant.delivery for grant in grants]

    async def counted() -> dict[str, int]:
        return (await store.tally("q", 3, (-1, ""), 9)).counters

    held = await take({of_priority: 2, of_all: 9}, of_priority, of_all)
    assert len(held) == 2
    assert await counted() == {of_priority: 2, of_all: 2}
    assert await take({of_priority: 2}, of_priority) == []
    assert len(await take({of_priority: 2, of_all: 3}, of_all)) == 1  # bound by what it names
    ended = replace(held[0], place=Place.HISTORY, state=State.COMPLETED, counted=())
    await store.commit([Change((Put(ended, held[0]),), ())], clock.now)
    assert await counted() == {of_priority: 2, of_all: 2}
    assert len(await take({})) == 3
    assert await counted() == {of_priority: 5, of_all: 5}


async def test_a_claim_holds_the_version_that_it_was_planned_with(
    store: Store, clock: Hand
) -> None:
    await store.commit([new(born("a", clock.now)), Change((Put(entry("q", 5)),), ())], clock.now)
    asked = claim(clock, 9, Demand("q", LANE, 9))
    held = (EntryKey("head", "q"), 4)
    [refused] = await store.claim([replace(asked, holds=(held,))])
    assert refused == Conflict({held[0]: entry("q", 5)})
    [grants] = await store.claim([replace(asked, holds=((held[0], 5),))])
    assert len(grants) == 1


async def test_a_tally_walks_the_organizations_in_their_order(store: Store, clock: Hand) -> None:
    def in_lane(id: str, turn: int, organization: str, at: int, confirmed: str = "") -> Delivery:
        waits = born(id, at, organization=organization)
        return replace(waits, turn=turn, confirmed=confirmed)

    now = clock.now
    waiting = [
        in_lane("a", 7, "x", now + 4), in_lane("b", 7, "x", now + 2), in_lane("c", 7, "y", now),
        in_lane("d", 9, "a", now), in_lane("e", 9, "a", now, "c1"), in_lane("f", 2, "z", now),
    ]  # fmt: skip
    await store.commit([new(d) for d in waiting], now)
    await store.commit([new(born("g", now, priority=1))], now)

    async def told(after: tuple[int, str], limit: int) -> list[Front]:
        tally = await store.tally("q", 3, after, limit)
        assert tally.organizations == 4
        return tally.fronts

    everybody = [
        Front(Lane(3, 2, "z"), 1, 0, now),
        Front(Lane(3, 7, "x"), 2, 0, now + 2),
        Front(Lane(3, 7, "y"), 1, 0, now),
        Front(Lane(3, 9, "a"), 1, 0, now),
        Front(Lane(3, 9, "a", "c1"), 1, 0, now),
    ]
    assert await told((-1, ""), 9) == everybody
    assert await told((-1, ""), 2) == everybody[:2]
    assert await told((7, "x"), 9) == everybody[2:]  # all lanes of an organization, or none
    assert await told((9, "a"), 9) == []
    assert [load.queued for load in await store.loads(["q", "none"])] == [7, 0]


async def test_a_scan_pages_through_a_place(store: Store, clock: Hand) -> None:
    for target, id in (("q", "a"), ("q", "b"), ("r", "a"), ("r", "c")):
        waits = replace(born(id, clock.now), target=target, send=f"{target}{id}")
        of_it = replace(message(waits), topics=[f"{target}.x"], object=id)
        await store.commit([Change((Put(waits),), (), (of_it,))], clock.now)

    async def found(where: Filter, after: str = "", limit: int = 9) -> list[str]:
        page = await store.scan(Place.WAITING, where, after, limit)
        rest = await found(where, page.after, limit) if page.after else []
        assert page.looked_at <= limit
        return [f"{d.target}{d.id}" for d in page.found] + rest

    for limit in (1, 2, 9):
        assert await found(Filter(), limit=limit) == ["qa", "qb", "ra", "rc"]
        assert await found(Filter(target="r"), limit=limit) == ["ra", "rc"]
        assert await found(Filter(topic="q."), limit=limit) == ["qa", "qb"]
        assert await found(Filter(object="a"), limit=limit) == ["qa", "ra"]
    assert await found(Filter(state="R")) == await found(Filter(since=clock.now + 1)) == []
    assert (await store.scan(Place.DEAD, Filter(), "", 9)).found == []
    assert [d.target for d in await store.of_id(None, "a")] == ["q", "r"]
    assert await store.of_id("other", "a") == []


async def test_a_body_that_somebody_needs_outlives_the_deliveries_that_point_to_it(
    store: Store, clock: Hand
) -> None:
    """What is parked behind a lease needs its body, though no delivery points to it yet."""
    one = born("a", clock.now)
    shared = replace(message(one), holders=2)
    await store.commit([Change((Put(one),), (), (shared,))], clock.now)
    ended = replace(one, version=2, place=Place.HISTORY, state=State.COMPLETED)
    await store.commit([Change((Put(ended, one),), ())], clock.now)
    await store.commit([Change((), (), removes=(Removal(ended, one.send),))], clock.now)
    assert await store.messages([one.send]) == [replace(shared, holders=1)]
    other = replace(one, target="r")
    await store.commit([Change((Put(other),), ())], clock.now)
    [[grant]] = await store.claim([claim(clock, 1, Demand("r", LANE, 1))])
    assert grant.message.body == b"x"


async def test_the_end_of_a_lease_ends_a_wait(store: Store, clock: Hand) -> None:
    await store.commit([new(born("a", clock.now))], clock.now)
    [[grant]] = await store.claim([claim(clock, 1, Demand("q", LANE, 1))])
    seen = await store.wait("q", -1, 0)
    ended = replace(grant.delivery, place=Place.HISTORY, state=State.COMPLETED)
    await store.commit([Change((Put(ended, grant.delivery),), ())], clock.now)
    assert await asyncio.wait_for(store.wait("q", seen, 20), 5) != seen


async def test_a_full_counter_ends_its_demand_and_no_other(store: Store, clock: Hand) -> None:
    await store.commit([new(born("a", clock.now, priority=1))], clock.now)
    await store.commit([new(born("b", clock.now))], clock.now)
    first, second = Demand("q", Lane(1, 0, ""), 9, ("full",)), Demand("q", LANE, 9, ("unnamed",))
    asked = claim(clock, 9, first, second)
    bounded = replace(asked, stamp=replace(asked.stamp, full_at={"full": 0}))
    assert await granted(store, bounded) == ["b"]


async def test_no_more_bodies_end_the_whole_claim(store: Store, clock: Hand) -> None:
    for id, priority, size in (("a", 1, 40), ("b", 1, 80), ("c", 3, 10)):
        await store.commit(
            [new(replace(born(id, clock.now, priority=priority), size=size))], clock.now
        )
    both = (Demand("q", Lane(1, 0, ""), 9), Demand("q", LANE, 9))
    assert await granted(store, claim(clock, 9, *both, room=100)) == ["a"]


async def test_equal_places_in_line_are_told_apart_by_id(store: Store, clock: Hand) -> None:
    await store.commit([new(born(id, clock.now)) for id in "cab"], clock.now)
    assert await granted(store, claim(clock, 2, Demand("q", LANE, 9))) == ["a", "b"]


async def test_what_stands_later_in_line_waits_though_it_is_available(
    store: Store, clock: Hand
) -> None:
    later = replace(born("a", clock.now), placed=clock.now + 5)
    await store.commit([new(later)], clock.now)
    assert await granted(store, claim(clock, 9, Demand("q", LANE, 9))) == []


async def test_lanes_are_compared_whole(store: Store, clock: Hand) -> None:
    lane = replace(born("a", clock.now), turn=7, confirmed="c1")
    await store.commit([new(lane)], clock.now)
    for other in (Lane(3, 8, "", "c1"), Lane(3, 7, "", ""), Lane(2, 7, "", "c1"), LANE):
        assert await granted(store, claim(clock, 9, Demand("q", other, 9))) == []
    assert await granted(store, claim(clock, 9, Demand("q", Lane(3, 7, "", "c1"), 9))) == ["a"]


async def test_a_conflict_brings_everything_that_the_change_names(
    store: Store, clock: Hand
) -> None:
    one, there = born("a", clock.now), entry("a", 5)
    await store.commit([new(one), Change((Put(there),), ())], clock.now)
    named = Change(
        (Put(one), Put(born("b", clock.now))),
        (),
        removes=(Removal(there),),
        holds=((EntryKey("name", "n"), 0),),
    )
    [conflict] = await store.commit([named], clock.now)
    assert conflict is not None
    assert conflict.found == {
        one.the_key: one,
        Key("q", "", "b"): None,
        there.the_key: there,
        EntryKey("name", "n"): None,
    }


async def test_a_range_beyond_the_log_ends_with_it(store: Store, clock: Hand) -> None:
    await store.commit([Change((), (event("a"),))], clock.now)
    pages = [page async for page in store.read_log(0, 1, 99)]
    assert [block.count for page in pages for block in page] == [1]


async def test_counters_of_a_target_are_not_those_of_a_longer_name(
    store: Store, clock: Hand
) -> None:
    for target in ("q", "qq"):
        waits = replace(born("a", clock.now), target=target, send=target)
        of_it = replace(message(waits), send=target)
        await store.commit([Change((Put(waits),), (), (of_it,))], clock.now)
        await store.claim([claim(clock, 9, Demand(target, LANE, 9))])
    counted = (await store.tally("q", 3, (-1, ""), 9)).counters
    assert counted == {"q\ndefault\n3": 1, "q\ndefault\n*": 1}


async def test_a_scan_knows_every_filter(store: Store, clock: Hand) -> None:
    for n, (id, organization, reason, key) in enumerate(
        (("a", "o1", "rejected", "k1"), ("b", "o2", "overflow", "k2"))
    ):
        waits = born(id, clock.now, organization=organization)
        of_it = replace(message(waits), key=key)
        rests = replace(
            waits, version=2, place=Place.DEAD, state=State.REJECTED, at=clock.now + n,
            memo=Memo(reason=reason),
        )  # fmt: skip
        await store.commit([Change((Put(waits),), (), (of_it,))], clock.now)
        await store.commit([Change((Put(rests, waits),), ())], clock.now)

    async def found(where: Filter) -> list[str]:
        return [d.id for d in (await store.scan(Place.DEAD, where, "", 9)).found]

    assert await found(Filter(organization="o2")) == ["b"]
    assert await found(Filter(reason="rejected")) == ["a"]
    assert await found(Filter(key="k2")) == ["b"]
    assert await found(Filter(since=clock.now + 1)) == ["b"]
    assert await found(Filter(since=clock.now, until=clock.now + 1)) == ["a"]
    assert await found(Filter(state="E")) == []


async def test_a_store_may_be_closed_twice(store: Store) -> None:
    await store.close()
    await store.close()
