"""Stories that once went wrong: each lost, starved or confused something."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from fairway.clock import Source
from fairway.core.claim import Held, Receive
from fairway.core.errors import FairwayError, LeaseLost, NotPlaced, TooManyTargets
from fairway.core.lifecycle import Verb
from fairway.core.operate import Operate
from fairway.core.records import Filter, Key, Place
from fairway.core.send import Send
from fairway.core.settings import Backoff, Retention, Settings
from fairway.core.settle import Settle
from fairway.core.targets import Arrange
from fairway.core.task import Task
from fairway.engine.engine import Engine
from fairway.store.memory import MemoryStore

SECOND = 1_000_000


class Stage:
    """An engine on a clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000_000
        self.engine = Engine(MemoryStore(self.clock), self.clock, Source(self.clock, 1))

    def clock(self) -> int:
        return self.now

    async def send(self, id: str, **facts: Any) -> None:
        ask = Send(**({"queue": "q", "body": b"x", "mime_type": "text/plain", "id": id} | facts))
        [answer] = await self.engine.send([ask])
        assert not isinstance(answer, FairwayError), answer

    async def receive(self, **facts: Any) -> list[Held]:
        return list(await self.engine.receive(Receive(**({"queue": "q", "limit": 9} | facts))))

    async def settle(self, held: Held, verb: Verb, **facts: Any) -> Any:
        ask = Settle(verb, held.queue, held.message.id, held.ack_id, **facts)
        return (await self.engine.settle([ask]))[0]

    async def arrange(self, verb: str, settings: Settings | None = None, **facts: Any) -> Any:
        return await self.engine.arrange(Arrange(verb, "q", settings, **facts))


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    stage = Stage()
    yield stage
    await stage.engine.close()


async def test_what_is_sent_after_a_forced_delete_is_not_ended_by_it(stage: Stage) -> None:
    await stage.send("old")
    await stage.send("leased", priority=1)
    [held] = await stage.receive(limit=1)
    await stage.arrange("delete", force=True)
    refused = await stage.arrange("create")
    assert isinstance(refused, FairwayError)
    assert refused.retryable
    while await stage.engine.run_tasks():
        pass
    stage.now += 1
    assert (await stage.arrange("create")).changed
    await stage.send("new")
    while await stage.engine.run_tasks():
        pass
    assert [h.message.id for h in await stage.receive()] == ["new"]
    # What was leased under the queue before belongs to it, not to the new one.
    assert isinstance(await stage.settle(held, Verb.ACK), LeaseLost)
    stage.now += 60 * SECOND
    await stage.engine.sweep()
    rest = await stage.engine.store.scan(Place.HISTORY, Filter(), "", 9)
    assert {d.id: d.state for d in rest.found} == {"old": "C", "leased": "C"}


async def test_what_is_parked_keeps_its_body_when_its_other_copies_are_removed(
    stage: Stage,
) -> None:
    both: dict[str, Any] = {"queue": None, "topics": ["p", "q"]}
    await stage.send("a", **both)
    [held] = await stage.receive()
    await stage.receive(queue="p", auto=True)
    await stage.send("a", **both, body=b"newer")  # ready in p, parked in q
    await stage.receive(queue="p", auto=True)
    await stage.engine.arrange(Arrange("alter", "p", Settings(retention=Retention(history=0))))
    stage.now += 1
    await stage.engine.retain()
    await stage.settle(held, Verb.ACK)
    assert [h.message.body for h in await stage.receive()] == [b"newer"]


async def test_a_holders_repeat_is_known_after_a_newer_version_came(stage: Stage) -> None:
    await stage.send("a")
    [held] = await stage.receive()
    await stage.settle(held, Verb.ACK)
    await stage.send("a", body=b"newer")
    again = await stage.settle(held, Verb.ACK)
    assert (again.outcome, again.state) == ("ok", "X")
    assert [h.generation for h in await stage.receive()] == [2]


async def test_a_number_that_was_given_to_a_version_beside_is_not_given_again(
    stage: Stage,
) -> None:
    thing = {"object": "o", "key": "k"}
    await stage.send("a", body=b"1")
    [held] = await stage.receive()
    await stage.send("a", body=b"2")  # parked, version 2
    await stage.send("b", body=b"3", **thing)
    await stage.send("a", body=b"3", **thing)  # unchanged: version 3, beside
    await stage.settle(held, Verb.ACK)  # version 2 is ready
    await stage.send("a", body=b"4")
    await stage.receive(auto=True)
    rest = await stage.engine.store.scan(Place.HISTORY, Filter(), "", 9)
    assert {d.generation: d.state for d in rest.found if d.id == "a"} == {
        1: "X", 2: "O", 3: "U", 4: "K",
    }  # fmt: skip


async def test_a_waiting_receive_goes_on_when_a_lease_under_the_cap_ends(stage: Stage) -> None:
    await stage.arrange("create", Settings(max_active={"*": 1}))
    await stage.send("a")
    await stage.send("b")
    [held] = await stage.receive()
    waiting = asyncio.create_task(stage.receive(wait=20 * SECOND))
    await asyncio.sleep(0.01)
    await stage.settle(held, Verb.ACK)
    assert [h.message.id for h in await asyncio.wait_for(waiting, 5)] == ["b"]


@pytest.mark.parametrize("leased", [False, True])
async def test_a_full_channel_keeps_what_it_has_and_refuses_nobody(
    stage: Stage, leased: bool
) -> None:
    small = Settings(max_queued=1)
    await stage.engine.arrange(Arrange("create", "channel:c", small, ("q.*",)))
    await stage.send("a", topics=["q.x"])
    [held] = await stage.receive(queue="channel:c") if leased else [None]
    for id, body in (("b", b"x"), ("a", b"newer")) if leased else (("b", b"x"),):
        ask = Send(queue="q", topics=["q.x"], body=body, mime_type="text/plain", id=id)
        [answer] = await stage.engine.send([ask])
        assert not isinstance(answer, FairwayError)
        assert [t.outcome for t in answer.targets][1] == "overflow"
    dead = await stage.engine.store.scan(Place.DEAD, Filter(target="channel:c"), "", 9)
    assert {(d.id, d.memo.reason) for d in dead.found} == (
        {("b", "overflow"), ("a", "overflow")} if leased else {("b", "overflow")}
    )
    if held is None:
        [held] = await stage.receive(queue="channel:c")
    assert held.message.id == "a"
    assert (await stage.settle(held, Verb.ACK)).state == "X"


async def test_a_store_holds_a_thousand_targets(stage: Stage) -> None:
    for n in range(999):
        await stage.engine.arrange(Arrange("create", f"t{n}"))
    await stage.send("a")
    both = Send(queue=None, topics=["q", "one-more"], body=b"", mime_type="text/plain")
    [answer] = await stage.engine.send([both])
    assert not isinstance(answer, FairwayError)
    assert [t.outcome for t in answer.targets] == ["queued", "refused"]
    for refused in (
        await stage.engine.arrange(Arrange("create", "another")),
        (await stage.engine.send([Send(queue="third", body=b"", mime_type="text/plain")]))[0],
    ):
        assert isinstance(refused, TooManyTargets)


async def test_a_delayed_release_does_not_block_its_lane(stage: Stage) -> None:
    await stage.send("a")
    await stage.send("b")
    [first] = await stage.receive(limit=1)
    await stage.settle(first, Verb.RELEASE, delay=60 * SECOND)
    assert [h.message.id for h in await stage.receive()] == ["b"]


async def test_what_is_partly_confirmed_does_not_stand_behind_what_came_later(stage: Stage) -> None:
    await stage.arrange("create", Settings(confirmations=2))
    await stage.send("a")
    [held] = await stage.receive(consumer="c1")
    await stage.settle(held, Verb.ACK)
    stage.now += 1
    await stage.send("b")
    assert [h.message.id for h in await stage.receive(consumer="c2", limit=1)] == ["a"]


async def test_a_message_that_wanted_two_to_confirm_completes_without_names(stage: Stage) -> None:
    await stage.arrange("create", Settings(confirmations=2))
    await stage.send("a")
    await stage.arrange("alter", Settings(confirmations=1))
    states: list[str] = []
    for _ in range(2):
        [held] = await stage.receive()
        states.append((await stage.settle(held, Verb.ACK)).state)
        stage.now += 1
    assert states == ["S", "X"]


async def test_a_confirmers_repeat_is_ok_after_another_leased_it(stage: Stage) -> None:
    await stage.arrange("create", Settings(confirmations=2))
    await stage.send("a")
    [first] = await stage.receive(consumer="c1")
    await stage.settle(first, Verb.ACK)
    [_] = await stage.receive(consumer="c2")
    again = await stage.settle(first, Verb.ACK)
    assert (again.outcome, again.state) == ("ok", "F")
    assert isinstance(await stage.settle(first, Verb.NAK), LeaseLost)


@pytest.mark.parametrize("last", ["ack", "auto"])
async def test_attempts_keep_who_confirmed_within_their_limit(stage: Stage, last: str) -> None:
    k = 2 if last == "ack" else 1
    patient = Settings(confirmations=k, max_retries=100, backoff=Backoff(delays=(0,)))
    await stage.arrange("create", patient)
    await stage.send("a")
    if last == "ack":
        [held] = await stage.receive(consumer="c1")
        await stage.settle(held, Verb.ACK)
    for _ in range(30):
        stage.now += 1
        [held] = await stage.receive(consumer="c2")
        await stage.settle(held, Verb.NAK)
    stage.now += 1
    [held] = await stage.receive(consumer="c2", auto=last == "auto")
    if last == "ack":
        await stage.settle(held, Verb.ACK)
    rest = await stage.engine.store.scan(Place.HISTORY, Filter(), "", 9)
    attempts = rest.found[0].memo.attempts
    assert len(attempts) == 20
    assert attempts[-1].outcome == ("completed" if last == "ack" else "kicked")
    assert (attempts[0].outcome == "confirmed") == (last == "ack")


async def test_receives_for_one_organization_do_not_take_the_turns_of_the_others(
    stage: Stage,
) -> None:
    for n in range(150):
        await stage.send(f"m{n}", organization=f"o{n}")
    for n in range(80):
        await stage.send(f"mine{n}", organization="mine")
    served: set[str] = set()
    for _ in range(45):
        [held] = await stage.receive(limit=1, organization="mine")
        assert held.message.organization == "mine"
        served |= {h.message.organization for h in await stage.receive(limit=4)}
    assert len(served - {"mine"}) == 150


@pytest.mark.parametrize("verb", [Verb.PURGE, Verb.DELETE])
async def test_what_is_left_to_the_pipeline_is_ended_by_a_purge_and_by_deleting(
    stage: Stage, verb: Verb
) -> None:
    await stage.arrange("create", Settings(routing="spark"))
    ask = Send(queue="q", body=b"x", mime_type="text/plain", id="a")
    [sent] = await stage.engine.send([ask])
    assert not isinstance(sent, FairwayError)
    assert sent.outcome == "logged"
    assert await stage.receive() == []
    for operation in (Verb.CANCEL, Verb.CHANGE):
        asked = Operate(operation, Key("q", "", "a"), priority=1)
        assert isinstance((await stage.engine.operate([asked]))[0], NotPlaced)
    [logged] = [e.event for e in await stage.engine.events(0, 0, 9) if e.event.kind == "logged"]
    assert (logged.pending, logged.send_id is not None) == (["q"], True)
    if verb is Verb.PURGE:
        wanted = Task(id="t", verb=verb, target="q", where=Filter(target="q"), created=stage.now)
        await stage.engine.begin(wanted)
    else:
        await stage.arrange("delete", force=True)
    while await stage.engine.run_tasks():
        pass
    assert await stage.engine.store.entries("pending", "", "", 9) == []
    assert await stage.engine.store.messages([logged.send_id or ""]) == [None]
    last = [e.event for e in await stage.engine.events(0, 0, 99) if e.event.id == "a"][-1]
    assert (last.kind, last.letter) == ("purged" if verb is Verb.PURGE else "cancelled", "C")
