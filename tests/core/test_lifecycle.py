"""The table of the life of a message, cell by cell: tables in, tables out."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from fairway.core import ackid, claim, send, settle
from fairway.core.errors import AlreadySettled, FairwayError, Leased, LeaseLost
from fairway.core.lifecycle import ENDS, PLACES, TABLE, Verb, When, step
from fairway.core.plan import Chance, Plan
from fairway.core.records import (
    Delivery,
    Front,
    Grant,
    Key,
    Lane,
    Lease,
    Memo,
    Message,
    Place,
    Stamp,
    State,
)
from fairway.core.send import Send, Sent
from fairway.core.settings import DEFAULTS, Settings
from fairway.core.settle import Settle

NOW = 1_700_000_000_000_000
SECOND = 1_000_000
CHANCE = Chance(sequence=5, draw=0.5)
LEASE = Lease(b"c" * 12, NOW, 30 * SECOND, "me")


def sent(body: str = "x", now: int = NOW, **facts: object) -> send.Accepted:
    ask = Send(queue="q", body=body.encode(), mime_type="text/plain", id="one", **facts)  # type: ignore[arg-type]
    return send.accept(send.check(ask), f"send-{body}", "new", now)


def plan(ask: send.Accepted, newest: Delivery | None, now: int = NOW) -> Plan[Sent]:
    decided = send.decide(ask, {ask.key: newest}, DEFAULTS, now, CHANCE)
    assert isinstance(decided, Plan)
    return decided


def waiting() -> Delivery:
    return plan(sent(), None).change.puts[0].now


def held(memo: Memo | None = None) -> Delivery:
    delivery = waiting() if memo is None else replace(waiting(), memo=memo)
    return claim.leased(delivery, Stamp(LEASE, NOW, NOW + LEASE.window, 1, 1))


def settled(
    verb: Verb,
    delivery: Delivery | None,
    now: int = NOW,
    rules: Settings = DEFAULTS,
    **facts: object,
) -> Plan[settle.Settled] | settle.Settled | FairwayError:
    proof = ackid.ack_id(held())
    ask = settle.prove(Settle(verb, "q", "one", proof, **facts))  # type: ignore[arg-type]
    return settle.decide(ask, {Key("q", "", "one"): delivery}, rules, now, CHANCE)


def test_every_state_has_a_place_and_every_row_can_be_reached() -> None:
    assert set(PLACES) == set(State)
    for row in TABLE:
        earlier = [r for r in TABLE[: TABLE.index(row)] if (r.verb, r.place) == row[:2]]
        assert step(row.verb, row.place, {row.when}) == row, "hidden by a row above it"
        assert all(r.when is not When.ALWAYS for r in earlier)


def test_a_new_message_is_logged_and_queued_at_the_end() -> None:
    made = plan(sent(delay=3 * SECOND, priority=1), None)
    [put] = made.change.puts
    assert (put.was, put.now.state, put.now.generation) == (None, State.QUEUED, 1)
    assert (put.now.placed, put.now.at, put.now.sequence) == (NOW + 3 * SECOND,) * 2 + (5,)
    assert [e.kind for e in made.change.events] == ["logged", "queued"]
    assert made.answer.outcome == "queued"


@pytest.mark.parametrize("place", [Place.WAITING, Place.LEASED, Place.HISTORY, Place.DEAD])
def test_the_same_content_is_a_duplicate_everywhere(place: Place) -> None:
    newest = replace(waiting(), place=place)
    made = plan(sent(), newest)
    assert (made.change.puts, made.change.messages) == ((), ())  # logged, without its body
    assert [e.kind for e in made.change.events] == ["logged", "duplicate"]
    assert made.answer.outcome == "duplicate"


@pytest.mark.parametrize("place", [Place.HISTORY, Place.DEAD])
def test_what_ended_long_ago_or_said_something_else_is_followed_by_a_new_version(
    place: Place,
) -> None:
    ended = replace(waiting(), place=place)
    after_the_window = plan(sent(), ended, NOW + DEFAULTS.duplication_window)
    other_content = plan(sent("y"), ended)
    for made in (after_the_window, other_content):
        [put] = made.change.puts
        assert (put.was, put.now.generation, put.now.place) == (ended, 2, Place.WAITING)
        assert made.answer.outcome == "queued"


def test_newer_content_takes_the_place_in_line_of_what_waits() -> None:
    old = replace(waiting(), placed=NOW - 9, at=NOW - 9, sequence=1)
    made = plan(sent("y"), old)
    ended, born = (put.now for put in made.change.puts)
    assert (ended.state, ended.place, ended.generation) == (State.OBSOLETE, Place.HISTORY, 1)
    assert (born.generation, born.placed, born.sequence) == (2, NOW - 9, 1)
    assert [e.kind for e in made.change.events] == ["logged", "obsolete", "updated"]
    assert made.change.events[1].cause == "send-y"


@pytest.mark.parametrize("change", [{"priority": 1}, {"delay": SECOND}])
def test_another_priority_or_delay_is_another_place_in_line(change: dict[str, int]) -> None:
    made = plan(sent("y", **change), replace(waiting(), placed=NOW - 9, at=NOW - 9))
    born = made.change.puts[1].now
    assert (born.placed, born.sequence) == (NOW + change.get("delay", 0), 5)


def test_newer_content_does_not_disturb_a_holder() -> None:
    refused = send.decide(sent("y"), {Key("q", "", "one"): held()}, DEFAULTS, NOW, CHANCE)
    assert isinstance(refused, Leased)


@pytest.mark.parametrize(
    ("verb", "state", "place", "counted"),
    [
        (Verb.ACK, State.COMPLETED, Place.HISTORY, (0, 0)),
        (Verb.NAK, State.RETRY, Place.WAITING, (1, 1)),
        (Verb.REJECT, State.REJECTED, Place.DEAD, (0, 1)),
    ],
)
def test_each_settle_of_a_held_delivery(
    verb: Verb, state: State, place: Place, counted: tuple[int, int]
) -> None:
    made = settled(verb, held(), NOW + SECOND)
    assert isinstance(made, Plan)
    [put] = made.change.puts
    assert (put.was, put.now.state, put.now.place) == (held(), state, place)
    assert (put.now.memo.retries, put.now.memo.errors) == counted
    assert (put.now.memo.deliveries, put.now.token) == (1, held().token)
    assert len(made.change.events) == 1


def test_the_last_nak_is_a_dead_letter_at_once() -> None:
    last = Memo(deliveries=7, retries=7)
    made = settled(Verb.NAK, held(last))
    assert isinstance(made, Plan)
    moved = made.change.puts[0].now
    assert (moved.state, moved.memo.reason) == (State.EXHAUSTED, "retries-exhausted")
    before = settled(Verb.NAK, held(replace(last, retries=6)))
    assert isinstance(before, Plan)
    assert before.change.puts[0].now.state is State.RETRY


def test_a_nak_waits_for_its_back_off_or_its_delay() -> None:
    waits: list[int] = []
    for retries in range(7):
        made = settled(Verb.NAK, held(Memo(retries=retries)))
        assert isinstance(made, Plan)
        waits.append(made.change.puts[0].now.at - NOW)
    # Half of 10, 20, 40 … s is fixed, half is random: three quarters at a draw of 0.5.
    assert waits == [w * SECOND for w in (7.5, 15, 30, 60, 120, 240, 480)]
    asked = settled(Verb.NAK, held(), delay=2 * SECOND)
    assert isinstance(asked, Plan)
    moved = asked.change.puts[0].now
    assert (moved.placed, moved.at, moved.sequence) == (NOW + 2 * SECOND, NOW + 2 * SECOND, 5)


@pytest.mark.parametrize("verb", [Verb.ACK, Verb.NAK, Verb.REJECT])
def test_a_settle_without_the_lease_changes_nothing(verb: Verb) -> None:
    other = replace(held(), lease=replace(LEASE, claim=b"d" * 12))
    for delivery in (
        None,
        waiting(),
        other,
        replace(held(), token=1),
        replace(held(), generation=2),
    ):
        assert isinstance(settled(verb, delivery), LeaseLost)
    assert isinstance(settled(verb, held(), held().at), LeaseLost)  # at the deadline, not after it


@pytest.mark.parametrize("verb", [Verb.ACK, Verb.NAK, Verb.REJECT])
@pytest.mark.parametrize("ended_by", [Verb.ACK, Verb.NAK, Verb.REJECT])
def test_the_holders_repeat(verb: Verb, ended_by: Verb) -> None:
    first = settled(ended_by, held())
    assert isinstance(first, Plan)
    moved = first.change.puts[0].now
    again = settled(verb, moved, NOW + 999 * SECOND)
    if moved.state in ENDS[verb]:
        assert again == settle.Settled(moved.state)
    else:
        assert isinstance(again, AlreadySettled)


def test_a_lapse_counts_a_retry_and_shuts_out_the_late_holder() -> None:
    over = held().at
    made = settle.lapse(settle.Lapse(held()), {Key("q", "", "one"): held()}, DEFAULTS, over, CHANCE)
    assert isinstance(made, Plan)
    [put] = made.change.puts
    assert (put.lapsed, put.now.state, put.now.memo.retries) == (True, State.RETRY, 1)
    assert made.change.events[0].reason == "lease-lapsed"
    assert isinstance(settled(Verb.ACK, put.now, over), LeaseLost)


def test_the_lapse_of_the_last_lease_is_a_dead_letter() -> None:
    last = held(Memo(retries=7))
    made = settle.lapse(settle.Lapse(last), {Key("q", "", "one"): last}, DEFAULTS, last.at, CHANCE)
    assert isinstance(made, Plan)
    assert made.change.puts[0].now.state is State.EXHAUSTED


@pytest.mark.parametrize("newest", [None, waiting(), replace(held(), token=1), held()])
def test_a_lapse_that_came_too_late_or_too_early_is_none(newest: Delivery | None) -> None:
    now = held().at - 1
    ask = settle.Lapse(held())
    assert isinstance(
        settle.lapse(ask, {Key("q", "", "one"): newest}, DEFAULTS, now, CHANCE), settle.Settled
    )


def test_a_grant_has_a_larger_token_than_the_last_and_than_the_clock() -> None:
    stamp = Stamp(LEASE, NOW, NOW + 1, 1, 1)
    assert claim.leased(waiting(), stamp).token == NOW
    assert claim.leased(replace(waiting(), token=NOW + 7), stamp).token == NOW + 8


def test_a_claim_walks_the_lanes_by_priority_and_leaves_out_what_is_not_due() -> None:
    fronts = [
        Front(Lane(3, "b"), NOW - 1),
        Front(Lane(1, "z"), NOW),
        Front(Lane(2, "a"), NOW + 1),
        Front(Lane(3, "a"), NOW - 5),
    ]
    planned = claim.plan("q", fronts, LEASE, 7, NOW)
    assert [d.lane for d in planned.demands] == [Lane(1, "z"), Lane(3, "a"), Lane(3, "b")]
    assert planned.stamp.deadline == NOW + LEASE.window


def test_what_is_handed_out_says_who_holds_it_and_until_when() -> None:
    message = Message(send="s", id="one", organization="", created=NOW, mime_type="text/plain")
    given = claim.vet(Grant(held(Memo(deliveries=2, retries=1, redelivered=True)), message))
    assert (given.attempt, given.retries, given.redelivered) == (3, 1, True)
    assert (given.deadline_at, given.window) == (NOW + LEASE.window, LEASE.window)
    proof = ackid.read(given.ack_id)
    assert (proof.token, proof.claim, proof.generation) == (given.token, LEASE.claim, 1)
