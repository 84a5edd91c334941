"""The document view: one message, made of all its deliveries, whatever was done to them."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from fairway.clock import Source
from fairway.core import document
from fairway.core.claim import Held, Receive
from fairway.core.document import Consumed, Document
from fairway.core.entries import PENDING
from fairway.core.errors import FairwayError
from fairway.core.events import Event
from fairway.core.lifecycle import PLACES, Verb
from fairway.core.operate import Operate
from fairway.core.records import Delivery, Entry, Key, Message, Place, State
from fairway.core.send import Send, Sent
from fairway.core.settings import Settings
from fairway.core.settle import Settle, Settled
from fairway.core.targets import Arrange
from fairway.engine.engine import Engine
from fairway.store.memory import MemoryStore
from tests.suite.conftest import Hand

SECOND = 1_000_000
MINUTE = 60 * SECOND
DAY = 24 * 3600 * SECOND


def instant(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * SECOND


class Stage:
    """An engine on the memory store, and the clock that the test moves."""

    def __init__(self, seed: int = 1) -> None:
        self.clock = Hand()
        self.store = MemoryStore(self.clock)
        self.engine = Engine(self.store, self.clock, Source(self.clock, seed))

    async def send(self, body: str = "{}", **facts: Any) -> Sent:
        """A little after what was sent before."""
        self.clock.now += 1_000
        if not facts.keys() & {"queue", "topics"}:
            facts["queue"] = "q"
        facts.setdefault("mime_type", "application/json")
        ask = Send(body=body.encode(), **facts)
        [sent] = await self.engine.send([ask])
        assert isinstance(sent, Sent), sent
        return sent

    async def receive(self, queue: str = "q", **facts: Any) -> Sequence[Held]:
        return await self.engine.receive(Receive(queue=queue, **facts))

    async def receive_one(self, queue: str = "q", **facts: Any) -> Held:
        [held] = await self.receive(queue, **facts)
        return held

    async def settle(self, held: Held, verb: Verb = Verb.ACK, **facts: Any) -> Settled:
        settled = await self.try_to_settle(held, verb, **facts)
        assert isinstance(settled, Settled), settled
        return settled

    async def try_to_settle(self, held: Held, verb: Verb, **facts: Any) -> Settled | FairwayError:
        ask = Settle(verb, held.queue, held.message.id, held.ack_id, **facts)
        [settled] = await self.engine.settle([ask])
        return settled

    async def arrange(
        self, verb: str, target: str = "q", force: bool = False, **facts: Any
    ) -> None:
        topics = facts.pop("topics", ())
        settings = Settings(**facts) if verb in ("create", "alter") else None
        answer = await self.engine.arrange(Arrange(verb, target, settings, topics, force))
        assert not isinstance(answer, FairwayError), answer

    async def operate(self, verb: Verb, id: str, **facts: Any) -> None:
        [answer] = await self.engine.operate([Operate(verb, Key("q", "", id), **facts)])
        assert not isinstance(answer, FairwayError), answer

    async def delivery(self, id: str, target: str = "q", organization: str = "") -> Delivery:
        [found] = await self.store.find([Key(target, organization, id)])
        assert isinstance(found, Delivery)
        return found

    async def pending(self, id: str) -> list[Entry]:
        waits = await self.store.entries(PENDING.name, "", "", 1_000)
        return [entry for entry in waits if PENDING.read(entry).id == id]

    async def document(self, id: str, organization: str = "") -> Document:
        """As whoever shows it has to look it up."""
        newest = await self.store.of_id(organization, id)
        older = await self.store.find(document.older_versions(newest))
        every = document.versions([*newest, *(d for d in older if isinstance(d, Delivery))])
        logged = [entry.name.split("\n") for entry in await self.pending(id)]
        sends = sorted({d.send for d in every} | {send for _, _, _, send in logged})
        messages = [m for m in await self.store.messages(sends) if m is not None]
        message, *earlier = document.newest_first(messages, every)
        unplaced = [target for target, _, _, send in logged if send == message.send]
        return document.view(message, every, earlier, unplaced)

    async def events(self, id: str) -> list[Event]:
        found = [logged.event for logged in await self.engine.events(0, 0, 1_000)]
        return [event for event in found if event.id == id]

    async def kinds(self, id: str) -> list[str]:
        return [event.kind for event in await self.events(id)]


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    opened = Stage()
    yield opened
    await opened.engine.close()


# --- the state, and what it means


def delivery(state: State, target: str = "q", **facts: Any) -> Delivery:
    facts = {"send": "s", "at": 9, "placed": 1} | facts
    return Delivery(
        target=target, organization="", id="i", generation=1, place=PLACES[state], state=state,
        priority=3, sequence=1, expires_at=99, size=1, fingerprint=b"", **facts,
    )  # fmt: skip


def message(*topics: str, **facts: Any) -> Message:
    facts = {"send": "s", "created": 1, "mime_type": "text/plain"} | facts
    return Message(id="i", organization="", topics=list(topics or ["q"]), **facts)


@pytest.mark.parametrize("at", range(12))
def test_of_several_deliveries_the_state_that_asks_for_most_attention_is_shown(at: int) -> None:
    placed = [state for state in document.STATE_SHOWN if state is not State.LOGGED]
    queues = [delivery(state, f"q{i}") for i, state in enumerate(placed[at:])]
    assert document.view(message(), queues[::-1]).state is placed[at]


@pytest.mark.parametrize(
    ("states", "flags"),
    {
        "L": "0000", "QR": "1000", "F": "0000", "S": "1100", "X": "0111", "KNI": "0101",
        "UEOC": "0001",
    }.items(),
)  # fmt: skip
def test_the_flags_say_what_the_letters_mean(states: str, flags: str) -> None:
    for state in map(State, states):
        found = [] if state is State.LOGGED else [delivery(state)]
        shown = document.view(message(), found, logged=[] if found else ["q"])
        given = [shown.queued, shown.delivered, shown.success, shown.archived]
        assert (shown.state, "".join(str(int(flag)) for flag in given)) == (state, flags)
        assert shown.confirmed is shown.success


@pytest.mark.parametrize(
    ("states", "name"),
    [
        ("QS", "Queued"),
        ("R", "Rescheduled"),
        ("F", "Leased"),
        ("XKNUOC", "History"),
        ("EI", "Dead-Letter"),
    ],
)
def test_a_state_has_the_name_of_the_life_cycle(states: str, name: str) -> None:
    assert {document.lifecycle(State(letter)) for letter in states} == {name}
    assert document.lifecycle(State.LOGGED) is None


async def test_what_is_left_to_the_pipeline_is_logged(stage: Stage) -> None:
    await stage.arrange("create", "slow", routing="spark")
    await stage.send(id="m", topics=["slow.a", "fast.a"])
    shown = await stage.document("m")
    assert (shown.state, shown.lifecycle, shown.completed) == (State.LOGGED, None, None)


# --- who, and when


async def test_its_instants_and_spans(stage: Stage) -> None:
    start = instant("2020-01-01T00:00:00")
    stage.clock.now = start - 1_000  # a send comes a little later
    await stage.send(id="m", delay=5 * SECOND, timestamp="noon", mime_type="text/plain")
    assert (await stage.document("m")).modified == start
    stage.clock.now = start + 12 * SECOND
    held = await stage.receive_one(consumer="c")
    running = await stage.document("m")
    assert (running.state, running.consumed) == (
        State.LEASED,
        [Consumed("c", "20200101T000012", None, None)],
    )
    stage.clock.now = start + 14 * SECOND
    await stage.settle(held, Verb.EXTEND, delay=MINUTE)
    assert (await stage.document("m")).modified == stage.clock.now
    stage.clock.now = start + 15 * SECOND
    await stage.settle(held)
    shown = await stage.document("m")
    assert (shown.created, shown.consumed_at) == (start, start + 12 * SECOND)
    assert shown.processed == shown.completed == shown.modified == start + 15 * SECOND
    assert (shown.wait, shown.queue_wait, shown.total) == (3 * SECOND, 7 * SECOND, 15 * SECOND)
    assert (shown.timestamp, shown.mime_type, shown.failed) == ("noon", "text/plain", None)


async def test_a_consumer_that_failed_first_is_shown_once_with_the_lease_that_it_confirmed(
    stage: Stage,
) -> None:
    stage.clock.now = instant("2019-12-31T00:00:00")
    await stage.arrange("create", confirmations=2)
    await stage.send(id="m")
    first = stage.clock.now = instant("2020-01-01T00:00:00")
    await stage.settle(await stage.receive_one(consumer="c2"), Verb.NAK, delay=0)
    stage.clock.now += SECOND
    held = await stage.receive_one(consumer="c1")
    stage.clock.now += 2 * SECOND
    await stage.settle(held)
    partly = await stage.document("m")
    assert (partly.state, partly.confirmed_count, partly.completed) == (State.PARTLY, 0, None)
    stage.clock.now += SECOND
    held = await stage.receive_one(consumer="c2")
    stage.clock.now += 1_500_000
    await stage.settle(held)
    shown = await stage.document("m")
    assert shown.consumed == [
        Consumed("c2", "20200101T000004", "20200101T000005", 1_500),
        Consumed("c1", "20200101T000001", "20200101T000003", 2_000),
    ]
    assert (shown.consumed_at, shown.processed) == (first, first + 3 * SECOND)
    assert (shown.confirmed_count, shown.queue_wait) == (1, first - shown.created)


async def test_a_release_was_no_consumption(stage: Stage) -> None:
    await stage.send(id="m")
    await stage.settle(await stage.receive_one(), Verb.RELEASE)
    shown = await stage.document("m")
    assert (shown.state, shown.consumed, shown.consumed_at) == (State.QUEUED, [], None)


async def test_a_rejection_is_an_answer_and_a_failure(stage: Stage) -> None:
    await stage.send(id="m", topics=["p.a", "p.b", "q.a"])
    await stage.settle(await stage.receive_one("p"))
    stage.clock.now += MINUTE
    await stage.settle(await stage.receive_one("q", consumer="c"), Verb.REJECT)
    shown = await stage.document("m")
    assert (shown.state, shown.lifecycle) == (State.REJECTED, "Dead-Letter")
    assert (shown.failed, shown.completed, shown.confirmed) == (stage.clock.now, None, False)
    assert (shown.topic_count, shown.confirmed_count) == (3, 2)  # both topics of the root p
    assert [entry.consumer_id for entry in shown.consumed] == [None, "c"]
    assert shown.consumed[1].confirmed_ts is not None


# --- what stands beside


async def test_channels_stand_beside_and_are_not_counted(stage: Stage) -> None:
    await stage.arrange("create", "channel:all", topics=("*",))
    await stage.send(id="m")
    await stage.settle(await stage.receive_one("channel:all", consumer="subscriber"))
    shown = await stage.document("m")
    assert (shown.state, shown.consumed, shown.confirmed_count) == (State.QUEUED, [], 0)
    [beside] = shown.channels
    assert (beside.target, beside.state) == ("channel:all", State.COMPLETED)


async def test_older_sends_of_the_id_are_listed_with_what_became_of_them(stage: Stage) -> None:
    await stage.send("1", id="m")
    await stage.send("2", id="m")
    await stage.receive_one()
    await stage.send("3", id="m")  # parked behind the lease
    shown = await stage.document("m")
    assert (bytes(shown.message), shown.state, shown.consumed) == (b"3", State.QUEUED, [])
    assert [old.state for old in shown.earlier] == [State.LEASED, State.OBSOLETE]
    assert shown.created > shown.earlier[0].created > shown.earlier[1].created


async def test_of_two_sends_in_one_call_the_later_one_is_the_newest(stage: Stage) -> None:
    for round in range(10):  # their ids are random, and must not decide
        bodies = [f"1{round}{i}".encode() for i in range(3)]
        await stage.engine.send(
            [Send(queue="q", id="m", body=body, mime_type="application/json") for body in bodies]
        )
        assert bytes((await stage.document("m")).message) == bodies[-1]
        stage.clock.now += 1


async def test_an_unchanged_send_beside_an_open_one_of_its_id_is_the_newest(stage: Stage) -> None:
    await stage.send("1", id="m", object="o", key="k")
    await stage.send("2", id="other", object="o", key="k")
    await stage.send("2", id="m", object="o", key="k")
    shown = await stage.document("m")
    assert (shown.state, [old.state for old in shown.earlier]) == (State.UNCHANGED, [State.QUEUED])
    await stage.receive(limit=2)
    await stage.send("3", id="m")  # parked behind the lease of the first
    assert [old.state for old in (await stage.document("m")).earlier] == [
        State.UNCHANGED, State.LEASED,
    ]  # fmt: skip


# --- how it is written


@pytest.mark.parametrize(
    ("body", "mime_type", "shown", "base64"),
    [
        (b'{"a": 1}', "application/json", b'{"a": 1}', None),
        ("ö".encode(), "text/plain", '"ö"'.encode(), None),
        (b"\xff", "text/plain", b"null", "/w=="),
        (b"{", "application/json", b"null", "ew=="),
        (None, "text/plain", b"null", None),
    ],
)
def test_the_body_is_json_or_text_or_base64(
    body: bytes | None, mime_type: str, shown: bytes, base64: str | None
) -> None:
    is_json = mime_type.endswith("json") and body != b"{"
    view = document.view(message(body=body, mime_type=mime_type, json=is_json), [])
    assert (bytes(view.message), view.message_base64) == (shown, base64)


def test_its_keys_are_those_of_the_document() -> None:
    ended = delivery(State.LEASED, at=20)
    keys = set(msgspec.json.decode(msgspec.json.encode(document.view(message(), [ended]))))
    assert keys >= {
        *("message", "timestamp", "mimeType", "topics", "topic", "object", "key", "state"),
        *("queued", "delivered", "success", "archived", "confirmed", "topicCount"),
        *("confirmedCount", "created", "modified", "consumed", "consumedAt", "processed"),
        *("completed", "failed", "lifecycle", "wait", "queueWait", "total", "channels", "earlier"),
    }
    assert keys >= document.INSTANTS | document.SPANS
    entry = msgspec.to_builtins(Consumed("c", "a", "b", 1))
    assert entry == {"consumerId": "c", "fetchedTS": "a", "confirmedTS": "b", "durationMS": 1}


def test_an_instant_is_written_compactly(run_seed: int) -> None:
    draw = random.Random(run_seed)
    edges = ["1970-01-01", "2000-02-29", "2100-02-28", "2100-03-01", "2024-12-31", "1969-12-31"]
    seconds = [instant(day) // SECOND for day in edges]
    seconds += [draw.randrange(-(10**10), 10**11) for _ in range(2_000)]
    for second in seconds:
        expected = datetime.fromtimestamp(second, UTC).strftime("%Y%m%dT%H%M%S")
        assert document.compact(second * SECOND + 999_999) == expected.rjust(15, "0")


def test_what_rests_changed_last_when_it_came_to_rest() -> None:
    ended = delivery(State.CANCELLED, at=77)
    assert ended.place is Place.HISTORY
    assert document.view(message(), [ended]).modified == 77
