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
    Lane,
    Lease,
    Memo,
    Message,
    Place,
    Put,
    Stamp,
    State,
)
from fairway.store.contract import Store
from tests.suite.conftest import Hand

LANE = Lane(3, "")


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


async def test_what_was_put_is_found_whole(store: Store, clock: Hand) -> None:
    one = born("a", clock.now, priority=1, organization="ü")
    assert await store.commit([new(one)], clock.now) == [None]
    assert await store.find([one.the_key, born("b", 1).the_key]) == [one, None]
    assert await store.messages(["send-a", "none"]) == [message(one), None]
    [[grant]] = await store.claim([claim(clock, 1, Demand("q", Lane(1, "ü"), 1))])
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
    elsewhere = replace(one, placed=one.placed + 1, at=one.at + 1)
    wrong = {
        "there is one": Put(one),
        "another place in line": Put(one, elsewhere),
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


async def test_a_lease_guards_by_token_claim_and_deadline(store: Store, clock: Hand) -> None:
    await store.commit([new(born("a", clock.now))], clock.now)
    [[grant]] = await store.claim([claim(clock, 1, Demand("q", LANE, 1))])
    lease = grant.delivery
    ended = replace(lease, place=Place.HISTORY, state=State.COMPLETED)

    async def refused(was: Delivery, now: int, lapsed: bool = False) -> bool:
        [conflict] = await store.commit([Change((Put(ended, was, lapsed),), ())], now)
        return conflict is not None

    other_claim = replace(lease, lease=Lease(b"d" * 12, clock.now, 10))
    assert await refused(replace(lease, token=lease.token + 1), clock.now)
    assert await refused(other_claim, clock.now)
    assert await refused(lease, lease.at)  # over by the time given
    assert await refused(lease, clock.now, lapsed=True)  # not over yet
    before = clock.now
    clock.now = lease.at
    assert await refused(lease, before)  # over by the store's own clock
    assert not await refused(lease, before, lapsed=True)


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
    fronts = await store.fronts("q", 9)
    assert [front.lane for front in fronts] == [Lane(1, "o"), LANE]
    assert len(await store.fronts("q", 1)) == 1
    two = claim(clock, 2, Demand("q", Lane(1, "o"), 9), Demand("q", LANE, 9))
    assert await granted(store, two) == ["z", "c"]
    assert await granted(store, claim(clock, 9, Demand("q", LANE, 1))) == ["b"]
    assert await granted(store, claim(clock, 9, Demand("q", LANE, 9))) == ["a"]
    assert await granted(store, claim(clock, 9, Demand("q", LANE, 9))) == []
    clock.now += 5
    assert await granted(store, claim(clock, 9, Demand("q", LANE, 9))) == ["released", "d"]
    assert await store.fronts("q", 9) == []


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


async def test_what_lapsed_is_listed_longest_first(store: Store, clock: Hand) -> None:
    for id in "ab":
        await store.commit([new(born(id, clock.now))], clock.now)
        await store.claim([claim(clock, 1, Demand("q", LANE, 1))])
        clock.now += 3
    assert [d.id for d in await store.lapsed(clock.now, 9)] == []
    clock.now += 4
    assert [d.id for d in await store.lapsed(clock.now, 9)] == ["a"]
    clock.now += 9
    assert [d.id for d in await store.lapsed(clock.now, 9)] == ["a", "b"]
    assert [d.id for d in await store.lapsed(clock.now, 1)] == ["a"]


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
