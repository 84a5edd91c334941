"""Why is it not delivered yet? Each cause is made, named, taken away, and the message is delivered."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from fairway.core import explain
from fairway.core.entries import PENDING, TARGET
from fairway.core.explain import Cause, Looked, Others, place_in_line
from fairway.core.fairness import START
from fairway.core.lifecycle import Verb
from fairway.core.records import Delivery, Entry, Filter, Key, Place, State
from fairway.core.settings import Backoff
from tests.core.test_document import MINUTE, SECOND, Stage


class Asking(Stage):
    """… and a person who asks of the message `m` in the queue `q`."""

    async def causes(
        self,
        organization: str = "",
        consumer: str = "",
        service: str = "default",
        asked_at: int | None = None,
    ) -> list[Cause]:
        """As whoever answers has to look it up."""
        found, target = await self.store.find([Key("q", organization, "m"), TARGET.key("q")])
        assert not isinstance(found, Entry)
        assert not isinstance(target, Delivery)
        tallies = {p: await self.store.tally("q", p, START, 64) for p in (1, 2, 3, 4)}
        others = Others()
        if found is not None:
            line = await self.store.scan(Place.WAITING, Filter(target="q"), "", 100_000)
            others = Others(
                before=place_in_line(found, line.found, consumer),
                organizations=tallies[found.priority].organizations,
                priorities=tuple(p for p in tallies if tallies[p].organizations),
            )
        pending = [PENDING.read(entry) for entry in await self.pending("m")]
        return explain.explain(
            Looked(
                now=self.clock.now, target="q", rules=TARGET.read(target) if target else None,
                delivery=found, pending=pending[0] if pending else None,
                counters=tallies[1].counters, others=others, asked_at=asked_at,
                consumer=consumer, service=service,
            )
        )  # fmt: skip

    async def codes(self, organization: str = "", consumer: str = "") -> list[str]:
        return [cause.code for cause in await self.causes(organization, consumer)]

    async def only_cause(self) -> Cause:
        [cause] = await self.causes()
        return cause

    async def is_delivered(self, consumer: str = "", body: bytes = b"{}") -> bool:
        held = await self.receive_one(consumer=consumer)
        return (held.message.id, held.message.body) == ("m", body)


@pytest.fixture
async def stage() -> AsyncIterator[Asking]:
    opened = Asking()
    yield opened
    await opened.engine.close()


# --- it is not in line at all


async def test_it_is_not_there(stage: Asking) -> None:
    assert await stage.codes() == ["not-found"]
    await stage.send(id="m")
    assert await stage.is_delivered()


async def test_it_is_logged_and_left_to_the_pipeline(stage: Asking) -> None:
    await stage.arrange("create", routing="spark")
    await stage.send(id="m", priority=2)
    cause = await stage.only_cause()
    assert (cause.code, cause.state, cause.priority) == ("not-placed", State.LOGGED, 2)
    assert not await stage.receive()
    await stage.arrange("alter", routing="broker")
    await stage.send(id="m")
    assert await stage.is_delivered()


async def test_it_ended_in_the_history(stage: Asking) -> None:
    await stage.send(id="m")
    await stage.settle(await stage.receive_one(consumer="c"), Verb.DECLINE, reason="not ours")
    cause = await stage.only_cause()
    assert (cause.code, cause.state, cause.since) == ("ended", State.DECLINED, stage.clock.now)
    assert (cause.holder, cause.text) == ("c", "not ours")
    await stage.send("2", id="m")
    assert await stage.is_delivered(body=b"2")


async def test_it_is_a_dead_letter(stage: Asking) -> None:
    await stage.send(id="m")
    held = await stage.receive_one(consumer="c")
    await stage.settle(held, Verb.REJECT, reason="no id", code="E7", severity="critical")
    cause = await stage.only_cause()
    assert (cause.code, cause.state, cause.reason) == ("dead-letter", State.REJECTED, "rejected")
    assert (cause.text, cause.error_code, cause.severity, cause.holder) == (
        "no id", "E7", "critical", "c",
    )  # fmt: skip
    await stage.send("2", id="m")
    assert await stage.is_delivered(body=b"2")


# --- somebody holds it


async def test_somebody_holds_it(stage: Asking) -> None:
    await stage.send(id="m")
    held = await stage.receive_one(consumer="c", service="billing")
    cause = await stage.only_cause()
    assert (cause.code, cause.holder, cause.service) == ("leased", "c", "billing")
    assert (cause.until, cause.token) == (held.deadline_at, held.token)
    await stage.settle(held, Verb.RELEASE)
    assert await stage.is_delivered()


async def test_its_lease_is_over_and_not_swept(stage: Asking) -> None:
    await stage.arrange("create", backoff=Backoff(delays=(0,)))
    await stage.send(id="m")
    held = await stage.receive_one(consumer="c")
    stage.clock.now = held.deadline_at
    cause = await stage.only_cause()
    assert (cause.code, cause.holder, cause.until) == ("lapsed", "c", held.deadline_at)
    assert not await stage.receive()
    await stage.engine.sweep()
    assert await stage.is_delivered()


async def test_it_is_parked_behind_a_lease(stage: Asking) -> None:
    await stage.send("1", id="m")
    held = await stage.receive_one(consumer="c")
    await stage.send("2", id="m")
    parked, leased = await stage.causes()
    assert (parked.code, parked.generation) == ("parked", 2)
    assert (parked.holder, parked.until) == ("c", held.deadline_at)
    assert (leased.code, leased.generation) == ("leased", 1)
    await stage.settle(held)
    assert await stage.is_delivered(body=b"2")


async def test_it_is_parked_and_asked_for_a_later_instant(stage: Asking) -> None:
    await stage.send("1", id="m")
    held = await stage.receive_one()
    await stage.send("2", id="m", delay=MINUTE)
    assert await stage.codes() == ["parked", "delayed", "leased"]
    await stage.settle(held)
    assert await stage.codes() == ["delayed"]
    stage.clock.now += MINUTE
    assert await stage.is_delivered(body=b"2")


# --- its queue gives nothing out


async def test_its_queue_was_deleted(stage: Asking) -> None:
    await stage.send(id="m")
    await stage.arrange("delete", force=True)
    cause = await stage.only_cause()
    assert (cause.code, cause.since) == ("target-deleted", stage.clock.now)
    assert not await stage.receive()
    while await stage.engine.run_tasks():  # only then there is another one of the name
        pass
    await stage.arrange("create")
    await stage.send("2", id="m")
    assert await stage.is_delivered(body=b"2")


async def test_its_queue_is_paused(stage: Asking) -> None:
    await stage.send(id="m")
    await stage.arrange("pause")
    assert await stage.codes() == ["paused"]
    assert not await stage.receive()
    await stage.arrange("resume")
    assert await stage.is_delivered()


async def test_a_lease_in_a_paused_queue_tells_both(stage: Asking) -> None:
    await stage.send(id="m")
    held = await stage.receive_one()
    await stage.arrange("pause")
    assert await stage.codes() == ["leased", "paused"]
    await stage.settle(held, Verb.RELEASE)
    assert await stage.codes() == ["paused"]
    await stage.arrange("resume")
    assert await stage.is_delivered()


# --- it is not its time


async def test_it_expired_and_is_not_swept(stage: Asking) -> None:
    await stage.send(id="m", ttl=SECOND)
    stage.clock.now += SECOND
    cause = await stage.only_cause()
    assert (cause.code, cause.since) == ("expired", stage.clock.now)
    await stage.operate(Verb.CHANGE, "m", ttl=MINUTE)
    assert await stage.is_delivered()


async def test_it_is_delayed(stage: Asking) -> None:
    await stage.send(id="m", delay=MINUTE)
    cause = await stage.only_cause()
    assert (cause.code, cause.until) == ("delayed", stage.clock.now + MINUTE)
    stage.clock.now += MINUTE - 1
    assert not await stage.receive()
    stage.clock.now += 1
    assert await stage.is_delivered()


async def test_it_is_in_back_off_after_a_nak(stage: Asking) -> None:
    await stage.arrange("create", backoff=Backoff(delays=(MINUTE,)), max_retries=4)
    await stage.send(id="m")
    await stage.settle(await stage.receive_one(), Verb.NAK, reason="no answer")
    cause = await stage.only_cause()
    assert (cause.code, cause.text, cause.retries) == ("back-off", "no answer", 1)
    assert (cause.until, cause.limit) == (stage.clock.now + MINUTE, 4)
    stage.clock.now += MINUTE
    assert await stage.is_delivered()


async def test_it_is_in_back_off_after_a_lapse_whatever_its_holder_had_said_before(
    stage: Asking,
) -> None:
    await stage.arrange("create", backoff=Backoff(delays=(MINUTE,)))
    await stage.send(id="m")
    await stage.settle(await stage.receive_one(), Verb.REQUEUE, delay=0)
    stage.clock.now = (await stage.receive_one()).deadline_at
    await stage.engine.sweep()
    cause = await stage.only_cause()
    assert (cause.code, cause.reason) == ("back-off", "lease-lapsed")
    stage.clock.now += MINUTE
    assert await stage.is_delivered()


@pytest.mark.parametrize(
    ("verb", "code"), [(Verb.REQUEUE, "redelivery-delay"), (Verb.RESCHEDULE, "rescheduled")]
)
async def test_its_consumer_wants_it_later(stage: Asking, verb: Verb, code: str) -> None:
    await stage.send(id="m")
    await stage.settle(await stage.receive_one(), verb, delay=MINUTE)
    cause = await stage.only_cause()
    assert (cause.code, cause.until) == (code, stage.clock.now + MINUTE)
    assert not await stage.receive()
    stage.clock.now += MINUTE
    assert await stage.is_delivered()


# --- several must confirm


async def test_this_consumer_confirmed_it_and_others_have_not(stage: Asking) -> None:
    await stage.arrange("create", confirmations=2)
    await stage.send(id="m")
    await stage.settle(await stage.receive_one(consumer="c1"))
    [cause] = await stage.causes(consumer="c1")
    assert (cause.code, cause.confirmed_by, cause.missing) == ("already-confirmed", ["c1"], 1)
    assert not await stage.receive(consumer="c1")
    assert await stage.codes() == ["waits-for-others", "consumer-required"]
    assert await stage.codes(consumer="c2") == ["ready"]
    assert await stage.is_delivered("c2")


async def test_nobody_said_who_asks(stage: Asking) -> None:
    await stage.arrange("create", confirmations=2)
    await stage.send(id="m")
    cause = await stage.only_cause()
    assert (cause.code, cause.limit) == ("consumer-required", 2)
    assert await stage.is_delivered("c")


# --- caps


async def test_the_cap_of_its_priority_is_reached(stage: Asking) -> None:
    await stage.arrange("create", max_active={"*": 10}, min_active=1)
    await stage.send(id="other", priority=4)
    held = await stage.receive_one()
    await stage.send(id="m", priority=4)
    cause = await stage.only_cause()
    assert (cause.code, cause.service, cause.priority) == ("priority-cap", "default", 4)
    assert (cause.active, cause.limit, cause.share) == (1, 1, 10)
    assert not await stage.receive()
    [elsewhere] = await stage.causes(service="another")  # each service has its own
    assert elsewhere.code == "ready"
    await stage.settle(held)
    assert await stage.is_delivered()


async def test_a_queue_that_borrows_is_not_held_up_by_a_share(stage: Asking) -> None:
    await stage.arrange("create", max_active={"*": 10}, min_active=1, borrow=True)
    await stage.send(id="other", priority=4)
    await stage.receive_one()
    await stage.send(id="m", priority=4)
    assert await stage.codes() == ["ready"]
    assert await stage.is_delivered()


async def test_the_service_holds_as_many_as_it_may(stage: Asking) -> None:
    await stage.arrange("create", max_active={"default": 1})
    await stage.send(id="other", priority=1)
    held = await stage.receive_one()
    await stage.send(id="m", priority=3)
    cause = await stage.only_cause()
    assert (cause.code, cause.active, cause.limit) == ("max-active", 1, 1)
    assert not await stage.receive()
    await stage.settle(held)
    assert await stage.is_delivered()


# --- others


async def test_others_stand_before_it(stage: Asking) -> None:
    for id in ("a", "b", "m", "c"):
        await stage.send(id=id)
    cause = await stage.only_cause()
    assert (cause.code, cause.place, cause.exact) == ("behind", 2, True)
    assert len(await stage.receive(limit=2)) == 2
    assert await stage.codes() == ["ready"]
    assert await stage.is_delivered()


async def test_its_place_in_line_is_counted_to_ten_thousand(stage: Asking) -> None:
    await stage.send(id="m")
    mine = await stage.delivery("m")
    line = [replace(mine, id=str(i), placed=mine.placed - 1) for i in range(10_002)]
    looked = Looked(now=stage.clock.now, target="q", rules=None, delivery=mine)
    for count, place, exact in ((10_000, 10_000, True), (10_002, 10_000, False)):
        before = place_in_line(mine, [*line[:count], mine])
        causes = explain.explain(replace(looked, others=Others(before=before)))
        [behind] = [cause for cause in causes if cause.code == "behind"]
        assert (behind.place, behind.exact) == (place, exact)
    aside = [replace(line[0], **other) for other in (
        {"priority": 1}, {"organization": "a"}, {"target": "p"}, {"confirmed": "c"},
    )]  # fmt: skip
    assert place_in_line(mine, aside, "c") == 0


async def test_other_organizations_have_their_turns(stage: Asking) -> None:
    for organization in ("acme", "zeta", "m's"):
        await stage.send(id="m", organization=organization)
    [cause] = await stage.causes("m's")
    assert (cause.code, cause.organizations, cause.priority) == ("other-organizations", 2, 3)
    await stage.receive(organization="acme")
    await stage.receive(organization="zeta")
    assert await stage.codes("m's") == ["ready"]
    assert await stage.is_delivered()


async def test_other_priorities_are_drawn_first(stage: Asking) -> None:
    for id, priority in (("a", 1), ("b", 2), ("m", 4)):
        await stage.send(id=id, priority=priority)
    cause = await stage.only_cause()
    assert (cause.code, cause.priority, cause.share) == ("other-priorities", 4, 10)
    assert cause.priorities == {1: 40, 2: 30}
    for id in ("a", "b"):
        await stage.operate(Verb.CANCEL, id)
    assert await stage.codes() == ["ready"]
    assert await stage.is_delivered()


async def test_no_consumer_has_asked_lately(stage: Asking) -> None:
    await stage.send(id="m")
    asked_at = stage.clock.now
    stage.clock.now += MINUTE
    [cause] = await stage.causes(asked_at=asked_at)
    assert (cause.code, cause.since) == ("no-consumer", asked_at)
    [cause] = await stage.causes(asked_at=stage.clock.now - SECOND)
    assert cause.code == "ready"
    assert await stage.is_delivered()


async def test_nothing_stands_in_its_way(stage: Asking) -> None:
    await stage.send(id="m")
    cause = await stage.only_cause()
    assert (cause.code, cause.since) == ("ready", stage.clock.now)
    assert await stage.is_delivered()


# --- together


async def test_the_most_decisive_comes_first(stage: Asking) -> None:
    await stage.arrange("create", max_active={"*": 1})
    await stage.send(id="held", priority=4)
    await stage.receive_one()
    await stage.send(id="before", priority=4, delay=SECOND)
    await stage.send(id="urgent", priority=1)
    await stage.send(id="m", priority=4, delay=2 * SECOND, organization="")
    await stage.send(id="m", priority=4, organization="acme")
    await stage.arrange("pause")
    assert await stage.codes() == [
        *("paused", "delayed", "max-active", "priority-cap"),
        *("behind", "other-organizations", "other-priorities"),
    ]


def test_every_rule_has_a_test_and_is_one_sentence() -> None:
    tests = Path(__file__).read_text()
    assert not [code for code in explain.RULES if f'"{code}"' not in tests]
    assert all(rule.endswith(".") and len(rule) < 100 for rule in explain.RULES.values())
