"""Sends that are only logged, compacted and placed, against the same sends decided one by one."""

from __future__ import annotations

import random
from typing import Any

import pytest

from fairway.clock import Source
from fairway.core.claim import Receive
from fairway.core.compact import Cover, Placement, compact
from fairway.core.entries import TARGET
from fairway.core.errors import FairwayError, NotPlaced
from fairway.core.lifecycle import Verb
from fairway.core.operate import Operate
from fairway.core.records import Entry, Filter, Key, Place
from fairway.core.send import Send
from fairway.core.settings import Settings
from fairway.core.settle import SETTLES, Settle
from fairway.core.targets import Arrange
from fairway.core.task import Task
from fairway.engine.engine import Engine
from fairway.store.memory import MemoryStore

SECOND = 1_000_000


class Pair:
    """An engine, with a queue whose sends it places at once or leaves to the pipeline."""

    def __init__(self, routing: str, settings: Settings | None = None) -> None:
        self.now = 1_700_000_000_000_000
        self.engine = Engine(MemoryStore(self.clock), self.clock, Source(self.clock, 1))
        self.settings = settings or Settings(routing=routing)
        self.routing = routing
        self.later: list[str] = []

    def clock(self) -> int:
        return self.now

    async def begin(self) -> None:
        await self.engine.arrange(Arrange("create", "q", self.settings))

    async def send(self, *asks: Send) -> list[Any]:
        return [(await self.engine.send([ask]))[0] for ask in asks]

    async def logged(self) -> list[Any]:
        """What waits to be placed, in the order of the log."""
        order = {
            e.event.send_id: e.position
            for e in await self.engine.events(0, 0, 1000)
            if e.event.kind == "logged"
        }
        found = await self.engine.pending("q", 1000)
        return sorted(found, key=lambda logged: order[logged.message.send])

    async def compacted(self) -> list[Placement]:
        [entry] = await self.engine.store.find([TARGET.key("q")])
        assert isinstance(entry, Entry)
        made: list[Placement] = []
        logged = await self.logged()
        for organization in sorted({one.message.organization for one in logged}):
            group = [one for one in logged if one.message.organization == organization]
            made += compact("q", TARGET.read(entry), group)
        return made

    async def place(self) -> list[str]:
        if self.routing == "broker":
            return []
        outcomes: list[str] = []
        for placement in await self.compacted():  # one after the other, in log order
            [answer] = await self.engine.place([placement])
            assert not isinstance(answer, FairwayError)
            outcomes.append(answer.outcome)
        return outcomes

    async def work(self, chance: random.Random) -> None:
        """All that waits is received; what becomes of it depends on its id alone."""
        self.now += 1
        held = await self.engine.receive(Receive(queue="q", limit=100))
        verbs = {h.message.id: chance.choice(("ack", "reject", "decline", "nak", "")) for h in
                 sorted(held, key=lambda h: (h.message.organization, h.message.id))}  # fmt: skip
        for h in held:
            if verbs[h.message.id]:
                verb = SETTLES[verbs[h.message.id]]
                await self.engine.settle([Settle(verb, "q", h.message.id, h.ack_id, delay=0)])

    async def waiting(self) -> list[tuple[str, str, bytes | None]]:
        page = await self.engine.store.scan(Place.WAITING, Filter(), "", 1000)
        messages = await self.engine.store.messages([d.send for d in page.found])
        return sorted(
            (d.organization, d.id, m.body) for d, m in zip(page.found, messages, strict=True) if m
        )

    async def fates(self) -> dict[str, str]:
        """How each send ended, by the log: the last that it says of it."""
        fates: dict[str, str] = {}
        after = 0
        while page := await self.engine.events(0, after, 1000):
            for logged in page:
                e = logged.event
                if e.send_id and e.kind not in ("logged", "leased"):
                    fates[e.send_id] = "queued" if e.kind == "updated" else e.kind
            after = page[-1].position
        return fates


def one(r: random.Random) -> Send:
    has_object = r.random() < 0.5
    return Send(
        queue="q",
        body=r.choice((b"1", b"2")),
        mime_type="text/plain",
        id=r.choice("abcdef"),
        organization=r.choice(("", "acme")),
        object="o" if has_object else None,
        key=r.choice("xy") if has_object else None,
        replaces=r.choice((None, None, "n")),
    )


@pytest.mark.parametrize("story", range(200))
async def test_compacted_and_placed_is_the_same_as_decided_one_by_one(
    story: int, run_seed: int
) -> None:
    """For a batch that knows of nothing before it; and what comes later meets the same."""
    seed = story if story < 100 else run_seed + story
    pairs = [Pair("broker"), Pair("spark")]
    for pair in pairs:
        await pair.begin()
        r = random.Random(seed)
        await pair.send(*(one(r) for _ in range(r.randint(2, 12))))
        await pair.place()
    broker, spark = pairs
    assert await spark.waiting() == await broker.waiting()
    assert sorted((await spark.fates()).values()) == sorted((await broker.fates()).values())
    for pair in pairs:
        await pair.engine.arrange(Arrange("alter", "q", Settings()))
        await pair.work(random.Random(seed))
        r = random.Random(seed + 1)
        pair.later = [a.outcome for a in await pair.send(*(one(r) for _ in range(20)))]
    assert spark.later == broker.later


async def test_a_batch_is_compacted_to_what_remains() -> None:
    spark = Pair("spark")
    await spark.begin()

    def send(id: str, body: bytes, **facts: Any) -> Send:
        return Send(queue="q", body=body, mime_type="text/plain", id=id, **facts)

    answers = await spark.send(
        send("a", b"1"), send("a", b"2"), send("a", b"2"), send("b", b"3", object="o", key="k"),
        send("c", b"3", object="o", key="k"), send("d", b"4", replaces="n"),
        send("e", b"5", replaces="n"),
    )  # fmt: skip
    assert {answer.outcome for answer in answers} == {"logged"}
    sends = [one.message.send for one in await spark.logged()]
    assert await spark.compacted() == [
        Placement(
            sends[1],
            "q",
            (Cover(sends[0], "obsolete"), Cover(sends[2], "duplicate")),
            at=1,
            renewed=True,
        ),
        Placement(sends[3], "q", (Cover(sends[4], "unchanged", heads=True),)),
        Placement(sends[6], "q", (Cover(sends[5], "obsolete"),), at=1),
    ]
    placements = await spark.compacted()
    assert await spark.place() == ["queued", "queued", "queued"]
    again = await spark.engine.place(placements)
    assert [a.outcome for a in again if not isinstance(a, FairwayError)] == ["placed-before"] * 3
    fates = await spark.fates()
    assert [fates[send] for send in sends] == [
        "obsolete", "queued", "duplicate", "queued", "unchanged", "obsolete", "queued",
    ]  # fmt: skip
    bodies = [m.body if m else "gone" for m in await spark.engine.store.messages(sends)]
    assert bodies == [None, b"2", "gone", b"3", None, None, b"5"]


async def test_a_full_queue_leaves_a_placement_logged() -> None:
    spark = Pair("spark", Settings(routing="spark", max_queued=1))
    await spark.begin()
    await spark.send(*(Send(queue="q", body=b"x", mime_type="text/plain", id=id) for id in "ab"))
    assert await spark.place() == ["queued", "logged"]
    assert [one.message.id for one in await spark.logged()] == ["b"]
    [held] = await spark.engine.receive(Receive(queue="q"))
    await spark.engine.settle([Settle(Verb.ACK, "q", "a", held.ack_id)])
    assert await spark.place() == ["queued"]


async def test_a_refused_placement_gives_way_to_what_it_covered() -> None:
    spark = Pair("spark", Settings(routing="spark"))
    await spark.begin()

    def send(body: bytes) -> Send:
        return Send(queue="q", body=body, mime_type="text/plain", id="a")

    await spark.send(send(b"1"))
    await spark.place()
    await spark.send(send(b"2"), send(b"3"))
    [placement] = await spark.compacted()
    await spark.engine.arrange(Arrange("alter", "q", Settings(routing="spark", duplicate="error")))
    [answer] = await spark.engine.place([placement])
    assert not isinstance(answer, FairwayError)
    assert answer.outcome == "refused"  # each of them: the id is there, with other content
    assert (await spark.fates())[placement.send] == "refused"
    assert await spark.logged() == []
    assert [body for _, _, body in await spark.waiting()] == [b"1"]


@pytest.mark.parametrize("verb", [Verb.PURGE, Verb.DELETE])
async def test_what_waits_to_be_placed_is_ended_by_a_purge_and_by_deleting(verb: Verb) -> None:
    spark = Pair("spark")
    await spark.begin()
    await spark.send(Send(queue="q", body=b"x", mime_type="text/plain", id="a"))
    for operation in (Verb.CANCEL, Verb.CHANGE):
        ask = Operate(operation, Key("q", "", "a"), priority=1)
        [refused] = await spark.engine.operate([ask])
        assert isinstance(refused, NotPlaced)
    placements = await spark.compacted()
    if verb is Verb.PURGE:
        wanted = Task(id="t", verb=verb, target="q", where=Filter(target="q"), created=spark.now)
        await spark.engine.begin(wanted)
    else:
        await spark.engine.arrange(Arrange("delete", "q", force=True))
    while await spark.engine.run_tasks():
        pass
    [answer] = await spark.engine.place(placements)
    assert not isinstance(answer, FairwayError)
    assert answer.outcome == "placed-before"
    kind = "purged" if verb is Verb.PURGE else "cancelled"
    assert list((await spark.fates()).values()) == [kind]
    assert await spark.engine.store.messages([placements[0].send]) == [None]
