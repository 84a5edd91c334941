"""What the documents say that Fairway was made from, told as they tell it and really run.

Each part is one of them; each test is named after the thing in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec import json

from fairway.core import claim, document, fairness
from fairway.core.claim import Held
from fairway.core.entries import TARGET
from fairway.core.fairness import START
from fairway.core.lifecycle import Verb
from fairway.core.records import Delivery, Entry, Filter, Place, State
from fairway.core.settings import DEFAULTS, Backoff
from tests.core.test_document import DAY, MINUTE, SECOND, Stage, instant


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    opened = Stage()
    yield opened
    await opened.engine.close()


# ══ The first document: topics, channels, states ════════════════════════════════════════════════

CUSTOMER = {"topics": ["customer.create", "audit.log"], "object": "customer", "key": "XYZ123"}


async def consume(stage: Stage, queue: str, consumer: str, fetched: str, confirmed: str) -> None:
    stage.clock.now = instant(fetched)
    held = await stage.receive_one(queue, consumer=consumer, window=2 * MINUTE)
    stage.clock.now = instant(confirmed)
    await stage.settle(held)


async def test_example_a_message_delivered_to_all_its_consumers(stage: Stage) -> None:
    stage.clock.now = instant("2020-05-05T23:59:59")
    await stage.send('{"name": "Ann"}', id="m", **CUSTOMER)
    await consume(stage, "audit", "c2", "2020-05-06T00:00:00", "2020-05-06T00:00:02")
    await consume(stage, "customer", "c1", "2020-05-07T01:01:00", "2020-05-07T01:02:00")
    shown = json.decode(json.encode(await stage.document("m")))
    facts = {
        "topic": ["customer.create", "audit.log"],
        "object": "customer",
        "key": "XYZ123",
        "state": "X",
        "queued": False,
        "archived": True,
        "confirmed": True,
        "topicCount": 2,
        "confirmedCount": 2,
        "consumed": [
            {
                "consumerId": "c1",
                "fetchedTS": "20200507T010100",
                "confirmedTS": "20200507T010200",
                "durationMS": 60_000,
            },
            {
                "consumerId": "c2",
                "fetchedTS": "20200506T000000",
                "confirmedTS": "20200506T000002",
                "durationMS": 2_000,
            },
        ],
    }
    assert {name: shown[name] for name in facts} == facts
    assert (shown["message"], shown["mimeType"]) == ({"name": "Ann"}, "application/json")
    assert shown["consumedAt"] == instant("2020-05-06T00:00:00")
    assert shown["processed"] == instant("2020-05-06T00:00:02")
    assert shown["completed"] == shown["modified"] == instant("2020-05-07T01:02:00")
    assert (shown["wait"], shown["failed"], shown["lifecycle"]) == (2 * SECOND, None, "History")


async def test_example_a_message_not_delivered_because_it_is_unchanged(stage: Stage) -> None:
    await stage.send('{"name": "Ann"}', id="first", **CUSTOMER)
    await stage.send('{"name": "Ann"}', id="again", **CUSTOMER)
    shown = json.decode(json.encode(await stage.document("again")))
    facts = {
        "topic": ["customer.create", "audit.log"],
        "object": "customer",
        "key": "XYZ123",
        "state": "U",
        "queued": False,
        "archived": True,
        "confirmed": False,
        "topicCount": 2,
        "confirmedCount": 0,
        "consumed": [],
    }
    assert {name: shown[name] for name in facts} == facts
    for queue in ("customer", "audit"):
        assert [held.message.id for held in await stage.receive(queue, limit=10)] == ["first"]


# ══ The second document: the life cycle ═════════════════════════════════════════════════════════


async def names_met(stage: Stage) -> list[str]:
    """The names of the states that the message went through, by its events."""
    letters = [State(event.letter) for event in await stage.events("m") if event.kind != "logged"]
    return [document.lifecycle(letter) or "" for letter in letters]


async def leave_alone_until_it_lapses(stage: Stage, held: Held) -> None:
    stage.clock.now = held.deadline_at
    await stage.engine.sweep()
    refused = await stage.try_to_settle(held, Verb.ACK)  # too late: every settle is an error
    assert getattr(refused, "code", None) == "lease-lost"


async def fail(stage: Stage, how: str) -> None:
    held = await stage.receive_one()
    if how == "nak":
        await stage.settle(held, Verb.NAK)
    else:
        await leave_alone_until_it_lapses(stage, held)
    stage.clock.now += DEFAULTS.backoff.max


async def test_happy_path(stage: Stage) -> None:
    await stage.send(id="m")
    await stage.settle(await stage.receive_one())
    assert await names_met(stage) == ["Queued", "Leased", "History"]
    shown = await stage.document("m")
    assert (shown.state, shown.lifecycle, shown.success) == (State.COMPLETED, "History", True)


@pytest.mark.parametrize("tries", [["nak"], ["lapse"], ["nak", "lapse", "lapse", "nak"]])
async def test_semi_happy_path(stage: Stage, tries: list[str]) -> None:
    await stage.send(id="m")
    for how in tries:
        await fail(stage, how)
    await stage.settle(await stage.receive_one())
    again = ["Rescheduled", "Leased"] * len(tries)
    assert await names_met(stage) == ["Queued", "Leased", *again, "History"]
    assert (await stage.delivery("m")).memo.retries == len(tries)


async def test_bad_message_path(stage: Stage) -> None:
    await stage.send("[", id="m")
    await stage.settle(await stage.receive_one(), Verb.REJECT, reason="cannot be read")
    assert await names_met(stage) == ["Queued", "Leased", "Dead-Letter"]
    dead = await stage.delivery("m")
    assert (dead.state, dead.memo.reason) == (State.REJECTED, "rejected")
    assert not await stage.receive()


async def test_abandoned_because_nothing_happened_until_it_expired(stage: Stage) -> None:
    await stage.send(id="m", ttl=DAY)
    stage.clock.now += DAY - 1
    await stage.engine.sweep()
    assert (await stage.delivery("m")).place is Place.WAITING
    stage.clock.now += 1
    await stage.engine.sweep()
    assert await names_met(stage) == ["Queued", "Dead-Letter"]
    dead = await stage.delivery("m")
    assert (dead.state, dead.memo.reason) == (State.EXHAUSTED, "message-expired")
    assert (await stage.document("m")).failed == stage.clock.now


@pytest.mark.parametrize("how", ["nak", "lapse"])
async def test_abandoned_because_its_retries_were_used_up(stage: Stage, how: str) -> None:
    await stage.send(id="m")
    for _ in range(1 + DEFAULTS.max_retries):
        assert (await stage.delivery("m")).place is Place.WAITING
        await fail(stage, how)
    assert not await stage.receive()
    again = ["Rescheduled", "Leased"] * DEFAULTS.max_retries
    assert await names_met(stage) == ["Queued", "Leased", *again, "Dead-Letter"]
    dead = await stage.delivery("m")
    assert (dead.state, dead.memo.reason) == (State.EXHAUSTED, "retries-exhausted")


# ══ The fourth document: priorities and organizations ═══════════════════════════════════════════


async def ids(stage: Stage, place: Place, queue: str, organization: str) -> list[str]:
    page = await stage.store.scan(place, Filter(target=queue, organization=organization), "", 1_000)
    return [delivery.id for delivery in page.found]


async def test_statement_that_moves_rows_with_a_limit(stage: Stage) -> None:
    """What it selects is gone from the queue and is running, in the order of creation; what somebody
    else takes at the same time is skipped; other topics and organizations are left alone."""
    rows = [f"m{number:02}" for number in range(25)]
    by_creation = sorted(rows, key=lambda id: (id[-1], id))  # not the order of the ids
    for id in by_creation:
        for topic in ("topic1", "topic2"):
            for owner in ("asdf", "another"):
                await stage.send(id=id, queue=topic, organization=owner)
    taken: list[str] = []
    for count in (10, 10, 5, 0):
        moved = await stage.receive("topic1", organization="asdf", limit=10)
        assert len(moved) == count
        taken += [held.message.id for held in moved]
        assert await ids(stage, Place.LEASED, "topic1", "asdf") == sorted(taken)
        assert await ids(stage, Place.WAITING, "topic1", "asdf") == sorted(set(rows) - {*taken})
    assert taken == by_creation
    for topic, owner in (("topic1", "another"), ("topic2", "asdf"), ("topic2", "another")):
        assert await ids(stage, Place.WAITING, topic, owner) == rows


async def test_statement_moves_only_what_waits(stage: Stage) -> None:
    for id, delay in (("later", MINUTE), ("now", 0)):
        await stage.send(id=id, delay=delay)
    assert [held.message.id for held in await stage.receive(limit=10)] == ["now"]


async def row_of(stage: Stage, found: Delivery) -> dict[str, Any]:
    """The columns of both its tables, as views of the records."""
    [message] = await stage.store.messages([found.send])
    assert message is not None
    return {
        "sub_transaction_id": found.id,
        "owner_organization": found.organization,
        "transaction_id": message.correlation_id,
        "pulse": found.memo.pulse_at,
        "create_date_time": message.created,
        "retry_date_time": found.at if found.place is Place.WAITING else found.placed,
        "topic": found.target,
        "status": {Place.WAITING: 1, Place.LEASED: 2}[found.place],
        "retries": found.memo.retries,
        "pulses": found.memo.pulses,
        "errors": found.memo.errors,
        "payload": message.body,
    }


async def test_columns_mean_what_they_are_called(stage: Stage) -> None:
    await stage.arrange("create", "topic1", backoff=Backoff(delays=(MINUTE,)))
    await stage.send("data", id="m", queue="topic1", organization="lake", correlation_id="17c3")
    created = stage.clock.now

    async def changed(**columns: Any) -> bool:
        before = dict(row)
        row.update(await row_of(stage, await stage.delivery("m", "topic1", "lake")))
        return row == before | columns

    row: dict[str, Any] = {}
    assert await changed(
        sub_transaction_id="m", owner_organization="lake", transaction_id="17c3", topic="topic1",
        create_date_time=created, retry_date_time=created, payload=b"data",
        status=1, pulse=None, retries=0, pulses=0, errors=0,
    )  # fmt: skip
    held = await stage.receive_one("topic1")
    assert await changed(status=2)
    for pulses in (1, 2):
        stage.clock.now += SECOND
        await stage.settle(held, Verb.EXTEND, delay=MINUTE)
        assert await changed(pulse=stage.clock.now, pulses=pulses)
    await stage.settle(held, Verb.NAK)  # an error, and a retry
    until = stage.clock.now + MINUTE
    assert await changed(status=1, retry_date_time=until, retries=1, errors=1)
    stage.clock.now = until
    held = await stage.receive_one("topic1")
    assert await changed(status=2)
    stage.clock.now = held.deadline_at
    await stage.engine.sweep()  # no error: nobody said that anything went wrong
    assert await changed(status=1, retry_date_time=stage.clock.now + MINUTE, retries=2)


async def test_status_0_is_what_was_only_logged(stage: Stage) -> None:
    await stage.arrange("create", "topic1", routing="spark")
    await stage.send(id="m", queue="topic1")
    assert (await stage.document("m")).state is State.LOGGED
    assert not await ids(stage, Place.WAITING, "topic1", "")


async def fill(stage: Stage, each: int, queue: str = "q", **facts: Any) -> None:
    for number in range(each):
        for priority in (1, 2, 3, 4):
            await stage.send(id=f"{priority}-{number}", queue=queue, priority=priority, **facts)


async def active(stage: Stage, queue: str = "q", service: str = "default") -> tuple[int, ...]:
    counters = (await stage.store.tally(queue, 1, START, 0)).counters
    return claim.active(queue, service, counters)


async def test_a_batch_is_half_of_the_most_that_may_be_active(stage: Stage) -> None:
    await stage.arrange("create", max_active={"*": 100})
    await fill(stage, 100)
    assert len(await stage.receive(limit=1_000)) == 50


async def test_each_priority_has_its_share_of_what_may_be_active(stage: Stage) -> None:
    await stage.arrange("create", max_active={"*": 100})
    target = await stage.store.find([TARGET.key("q")])
    assert isinstance(target[0], Entry)
    rules = claim.policy(TARGET.read(target[0]).settings, "default")
    assert fairness.caps(100, rules.shares, rules.min_active) == (40, 30, 20, 10)
    await fill(stage, 100)
    granted: Counter[int] = Counter()
    while held := await stage.receive(limit=1_000):
        granted.update(one.priority for one in held)
        assert all(a <= cap for a, cap in zip(await active(stage), (40, 30, 20, 10), strict=True))
    assert granted == {1: 40, 2: 30, 3: 20, 4: 10}


async def test_a_higher_priority_is_not_filled_with_a_lower_one(stage: Stage) -> None:
    await stage.arrange("create", max_active={"*": 100})
    for number in range(100):
        await stage.send(id=str(number), priority=4)
    while await stage.receive(limit=1_000):
        pass
    assert await active(stage) == (0, 0, 0, 10)


async def test_a_few_of_each_priority_run_if_possible(stage: Stage) -> None:
    await stage.arrange("create", max_active={"*": 20})
    for number in range(20):
        await stage.send(id=str(number), priority=4)  # its share alone would be 2
    while await stage.receive(limit=1_000):
        pass
    assert await active(stage) == (0, 0, 0, 5)


async def test_the_total_of_a_service_is_the_sum_over_its_topics(stage: Stage) -> None:
    for topic in ("topic1", "topic2"):
        await stage.arrange("create", topic, max_active={"*": 10}, min_active=1)
        await fill(stage, 10, topic)
        for service in ("billing", "mail"):
            while await stage.receive(topic, limit=1_000, service=service):
                pass
    for service in ("billing", "mail"):
        held = [await active(stage, topic, service) for topic in ("topic1", "topic2")]
        assert held == [(4, 3, 2, 1), (4, 3, 2, 1)]


async def test_an_organization_that_does_not_fill_the_amount_is_followed_by_the_next(
    stage: Stage,
) -> None:
    for owner, count in (("companya", 1), ("companyb", 9), ("companyc", 3)):
        for number in range(count):
            await stage.send(id=str(number), organization=owner)
    held = await stage.receive(limit=13)
    owners = Counter(one.message.organization for one in held)
    assert owners == {"companya": 1, "companyb": 9, "companyc": 3}


async def test_the_amount_is_divided_across_all_organizations(stage: Stage) -> None:
    await stage.arrange("create", min_active=1)
    for owner in ("companya", "companyb", "companyc", "lake", "sanity"):
        for number in range(50):
            await stage.send(id=str(number), organization=owner)
    held = await stage.receive(limit=50)
    assert set(Counter(one.message.organization for one in held).values()) == {10}


async def test_the_organization_is_random(stage: Stage) -> None:
    first: set[str] = set()
    for seed in range(20):
        another = Stage(seed)
        for owner in ("companya", "companyb", "companyc"):
            await another.send(organization=owner)
        first.add((await another.receive_one()).message.organization)
        await another.engine.close()
    assert first == {"companya", "companyb", "companyc"}


async def test_a_message_without_a_pulse_is_moved_away(stage: Stage) -> None:
    await stage.arrange("create", max_retries=0)
    await stage.send(id="m")
    held = await stage.receive_one(window=MINUTE)
    for _ in range(5):  # whoever gives signs of life keeps it, however long it takes
        stage.clock.now += MINUTE - 1
        await stage.settle(held, Verb.EXTEND, delay=MINUTE)
        await stage.engine.sweep()
    assert (await stage.delivery("m")).place is Place.LEASED
    stage.clock.now += MINUTE
    await stage.engine.sweep()
    dead = await stage.delivery("m")
    assert (dead.place, dead.memo.pulses, dead.memo.errors) == (Place.DEAD, 5, 0)


# ══ The fifth document: acknowledgement ═════════════════════════════════════════════════════════


async def test_ack_the_message_was_processed_and_is_removed(stage: Stage) -> None:
    await stage.send(id="m")
    await stage.settle(await stage.receive_one())
    stage.clock.now += DAY
    assert not await stage.receive()
    assert (await stage.delivery("m")).state is State.COMPLETED


@pytest.mark.parametrize(
    ("asked", "severity"), [(None, "error"), ("critical", "critical")], ids=["normal", "critical"]
)
async def test_reject_it_will_never_be_processable(
    stage: Stage, asked: str | None, severity: str
) -> None:
    """From the normal course, as for what was deleted meanwhile; or a failure that needs a person."""
    await stage.send(id="m")
    await stage.settle(await stage.receive_one(), Verb.REJECT, severity=asked, reason="gone")
    stage.clock.now += DAY
    assert not await stage.receive()
    dead = await stage.delivery("m")
    assert (dead.state, dead.memo.severity, dead.memo.text) == (State.REJECTED, severity, "gone")


async def test_requeue_to_the_end_of_the_queue_and_processed_after_a_delay(stage: Stage) -> None:
    for id in ("m", "a", "b"):
        await stage.send(id=id)
    held = await stage.receive_one()
    assert not held.redelivered
    await stage.settle(held, Verb.REQUEUE)
    requeued = await stage.delivery("m")
    assert requeued.memo.redelivered
    assert (requeued.memo.requeues, requeued.memo.retries, requeued.memo.errors) == (1, 0, 0)
    assert await goes_on_with(stage, "a", "b")
    stage.clock.now += DEFAULTS.redelivery_delay - 1
    assert not await stage.receive()
    stage.clock.now += 1
    again = await stage.receive_one()
    assert (again.message.id, again.redelivered, again.attempt) == ("m", True, 2)


async def goes_on_with(stage: Stage, *others: str) -> bool:
    """The consumer processes what comes next."""
    for id in others:
        held = await stage.receive_one()
        await stage.settle(held)
        if held.message.id != id or held.redelivered:
            return False
    return True


async def test_a_requeued_message_stands_behind_what_came_meanwhile(stage: Stage) -> None:
    await stage.send(id="m")
    await stage.settle(await stage.receive_one(), Verb.REQUEUE)
    await stage.send(id="meanwhile")
    stage.clock.now += DEFAULTS.redelivery_delay
    await stage.send(id="after")
    order = [held.message.id for held in await stage.receive(limit=10)]
    assert order == ["meanwhile", "m", "after"]


async def test_an_exception_sends_it_back_redelivered_and_may_come_again(stage: Stage) -> None:
    """What a worker does with an exception of its processor: nak."""
    for id in ("m", "a"):
        await stage.send(id=id)
    await stage.settle(await stage.receive_one(), Verb.NAK, reason="ValueError: 7")
    failed = await stage.delivery("m")
    assert (failed.state, failed.memo.text) == (State.RETRY, "ValueError: 7")
    assert (failed.memo.redelivered, failed.memo.retries, failed.memo.errors) == (True, 1, 1)
    assert await goes_on_with(stage, "a")
    stage.clock.now = failed.at - 1
    assert not await stage.receive()
    stage.clock.now = failed.at
    again = await stage.receive_one()
    assert (again.message.id, again.redelivered) == ("m", True)
    await stage.settle(again, Verb.NAK, reason="ValueError: 7")
    assert (await stage.delivery("m")).memo.retries == 2
