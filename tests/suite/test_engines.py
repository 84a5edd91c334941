"""Several engines on one store: each decides on what it remembers, which may be old."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fairway.clock import Source
from fairway.core.claim import Receive
from fairway.core.errors import FairwayError, LeaseLost, NotEmpty
from fairway.core.lifecycle import Verb
from fairway.core.records import Filter, Place
from fairway.core.send import Send
from fairway.core.settings import Settings
from fairway.core.settle import Settle
from fairway.core.targets import Arrange
from fairway.core.task import Task
from fairway.engine.engine import Engine
from fairway.store.contract import Store
from tests.suite.conftest import Hand

SECOND = 1_000_000


@pytest.fixture
def two(store: Store, clock: Hand) -> tuple[Engine, Engine]:
    first, second = (Engine(store, clock, Source(clock, seed)) for seed in (1, 2))
    return first, second


def send(id: str, queue: str = "q", **facts: Any) -> Send:
    return Send(queue=queue, body=b"x", mime_type="text/plain", id=id, **facts)


async def receive(engine: Engine, **facts: Any) -> list[Any]:
    return list(await engine.receive(Receive(**({"queue": "q", "limit": 9} | facts))))


async def settle(engine: Engine, held: Any, verb: Verb, **facts: Any) -> Any:
    ask = Settle(verb, held.queue, held.message.id, held.ack_id, **facts)
    return (await engine.settle([ask]))[0]


async def states(store: Store) -> dict[str, str]:
    pages = [await store.scan(place, Filter(), "", 1000) for place in Place]
    return {d.id: d.state.value for page in pages for d in page.found}


def before_the_next_commit(
    monkeypatch: pytest.MonkeyPatch, engine: Engine, act: Callable[[], Awaitable[object]]
) -> None:
    """Another engine is faster: `act` happens between the decision and the commit."""
    real = engine.store.commit

    async def commit(changes: Any, now: int) -> Any:
        monkeypatch.setattr(engine.store, "commit", real)
        await act()
        return await real(changes, now)

    monkeypatch.setattr(engine.store, "commit", commit)


async def test_a_queue_that_was_made_again_is_not_taken_for_the_deleted_one(
    two: tuple[Engine, Engine], store: Store, clock: Hand
) -> None:
    a, b = two
    await a.send([send("old")])
    await a.arrange(Arrange("delete", "q", force=True))
    while await a.run_tasks():
        pass
    await a.send([send("refused")])  # a remembers that it is deleted
    clock.now += 1
    await b.arrange(Arrange("create", "q"))
    await b.send([send("m1"), send("m2")])
    first, _ = await receive(b)
    assert (await settle(a, first, Verb.ACK)).state == "X"
    assert not isinstance((await a.send([send("m3")]))[0], FairwayError)
    clock.now += 60 * SECOND
    await a.sweep()
    assert await states(store) == {"old": "C", "m1": "X", "m2": "R", "m3": "Q"}


async def test_what_was_leased_in_a_deleted_queue_does_not_come_back(
    two: tuple[Engine, Engine],
) -> None:
    a, b = two
    await b.send([send("m")])
    [held] = await receive(b)
    await a.arrange(Arrange("delete", "q", force=True))
    while await a.run_tasks():
        pass
    assert isinstance(await settle(b, held, Verb.REQUEUE, delay=0), LeaseLost)
    await a.arrange(Arrange("create", "q"))
    assert await receive(b) == []


async def test_a_task_that_two_engines_run_leaves_nothing_out(
    two: tuple[Engine, Engine], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = two
    await a.send([send(f"m{n}") for n in range(5)])
    await a.begin(Task(id="t", verb=Verb.PURGE, target="q", where=Filter(target="q"), created=1))
    before_the_next_commit(monkeypatch, a, b.run_tasks)
    while await a.run_tasks() + await b.run_tasks():
        pass
    assert set((await states(store)).values()) == {"C"}


@pytest.mark.parametrize("first", ["nak", "send"])
async def test_an_older_message_of_a_name_never_comes_back(
    two: tuple[Engine, Engine], store: Store, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    a, b = two
    await a.send([send("m1", replaces="n")])
    [held] = await receive(a)

    async def nak() -> None:
        await settle(a, held, Verb.NAK, delay=0)

    async def newer() -> None:
        await b.send([send("m2", replaces="n")])

    if first == "nak":
        before_the_next_commit(monkeypatch, a, nak)
        await newer()
    else:
        before_the_next_commit(monkeypatch, a, newer)
        await nak()
    assert await states(store) == {"m1": "O", "m2": "Q"}


async def test_deleting_a_queue_that_is_not_empty_any_more_is_refused(
    two: tuple[Engine, Engine], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = two
    await a.arrange(Arrange("create", "q"))

    async def one_comes() -> None:
        await b.send([send("m")])

    before_the_next_commit(monkeypatch, a, one_comes)
    assert isinstance(await a.arrange(Arrange("delete", "q")), NotEmpty)
    assert [h.message.id for h in await receive(b)] == ["m"]
    assert not isinstance((await b.send([send("n")]))[0], FairwayError)  # it is open again


async def test_deleting_a_queue_whose_messages_wait_for_the_pipeline_is_refused(
    two: tuple[Engine, Engine],
) -> None:
    a, _ = two
    await a.arrange(Arrange("create", "q", Settings(routing="spark")))
    await a.send([send("m")])
    assert isinstance(await a.arrange(Arrange("delete", "q")), NotEmpty)


async def test_a_channel_that_is_gone_fails_no_send(two: tuple[Engine, Engine]) -> None:
    a, b = two
    await a.arrange(Arrange("create", "channel:c", topics=("*",)))
    await a.send([send("m0")])
    await b.arrange(Arrange("delete", "channel:c", force=True))
    await receive(a, queue="channel:c")
    for answer in await a.send([send("m1"), send("m2", queue="other")]):
        assert not isinstance(answer, FairwayError)
        assert len(answer.targets) == 1


async def test_a_batch_that_makes_many_queues_contends_with_nobody(
    two: tuple[Engine, Engine],
) -> None:
    a, _ = two
    await a.send([send("m", queue="there")])
    many = [send("m", queue=f"q{n}") for n in range(12)]
    answers = await a.send([*many, *(send(f"n{n}", queue="there") for n in range(3))])
    assert [answer for answer in answers if isinstance(answer, FairwayError)] == []


async def test_a_replay_copies_what_was_there_when_it_began(
    two: tuple[Engine, Engine], store: Store, clock: Hand
) -> None:
    a, _ = two
    await a.send([send(f"m{n}") for n in range(3)])
    for held in await receive(a):
        await settle(a, held, Verb.ACK)
    clock.now += 1
    wanted = Task(id="t", verb=Verb.REPLAY, target="q", where=Filter(target="q"), created=1)
    await a.begin(wanted)
    for _ in range(9):
        await a.run_tasks()
        for held in await receive(a):
            await settle(a, held, Verb.ACK)
        clock.now += SECOND
    assert len(await states(store)) == 6
