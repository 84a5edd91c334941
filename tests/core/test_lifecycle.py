"""The table of the life of a message, cell by cell: tables in, tables out."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from fairway.core import ackid, claim, route, send, settle
from fairway.core.entries import (
    DIRECTORY,
    HEAD,
    NAME,
    TARGET,
    THE_DIRECTORY,
    Directory,
    Head,
    Known,
    Name,
    Target,
)
from fairway.core.errors import AlreadySettled, Duplicate, FairwayError, LeaseLost
from fairway.core.lifecycle import PLACES, TABLE, Verb, When, step
from fairway.core.plan import Chance, Plan
from fairway.core.records import (
    AnyKey,
    Delivery,
    Demand,
    Entry,
    Grant,
    Hold,
    Key,
    Lane,
    Lease,
    Memo,
    Message,
    Place,
    Record,
    Stamp,
    State,
)
from fairway.core.send import Send, Sent
from fairway.core.settings import DEFAULTS, Settings
from fairway.core.settle import Return, Settle

NOW = 1_700_000_000_000_000
SECOND = 1_000_000
CHANCE = Chance(sequence=5, draw=0.5)
LEASE = Lease(b"c" * 12, NOW, 30 * SECOND, "me", under="1")
STAMP = Stamp(LEASE, NOW, NOW + LEASE.window, 1, 1)
THE_KEY = Key("q", "", "one")


def queue(settings: Settings = DEFAULTS) -> Entry:
    return TARGET.next(None, TARGET.key("q"), Target(id="1", created=1, settings=settings), 1)


def known(*records: Record, settings: Settings = DEFAULTS, **missing: Any) -> Known:
    """The queue, and these records; looked for and not found: the message, its head, its name."""
    found: dict[AnyKey, Record | None] = {
        THE_DIRECTORY: DIRECTORY.next(None, THE_DIRECTORY, Directory(targets=1), 1),
        TARGET.key("q"): queue(settings),
        THE_KEY: None,
        replace(THE_KEY, generation=1): None,
        HEAD.key("q", "", "o", "k"): None,
        NAME.key("q", "", "n"): None,
    }
    found |= {record.the_key: record for record in records}
    for record in records:
        if isinstance(record, Delivery):
            found[replace(record.the_key, generation=record.generation)] = record
    return Known(found)


def sent(body: str = "x", now: int = NOW, **facts: Any) -> send.Accepted:
    facts = {"queue": "q", "mime_type": "text/plain", "id": "one"} | facts
    ask = Send(body=body.encode(), **facts)
    return send.accept(send.check(ask), f"send-{body}", "new", now)


def decided(
    ask: send.Accepted, *records: Record, now: int = NOW, settings: Settings = DEFAULTS
) -> Plan[Sent] | FairwayError:
    answer = route.decide(ask, known(*records, settings=settings), now, CHANCE, {})
    assert isinstance(answer, Plan | FairwayError), answer
    return answer


def plan(ask: send.Accepted, *records: Record, now: int = NOW) -> Plan[Sent]:
    made = decided(ask, *records, now=now)
    assert isinstance(made, Plan)
    return made


def versions(made: Plan[Any]) -> list[Delivery]:
    return [put.now for put in made.change.puts if isinstance(put.now, Delivery)]


def kinds(made: Plan[Any]) -> list[str]:
    return [event.kind for event in made.change.events]


def waiting(**facts: Any) -> Delivery:
    return replace(versions(plan(sent()))[0], **facts)


def held(**facts: Any) -> Delivery:
    granted, _ = claim.grant(waiting(), Demand("q", Lane(3, 0, ""), 1), STAMP)
    return replace(granted, **facts)


def settled(
    verb: Verb,
    delivery: Delivery | None,
    *others: Record,
    now: int = NOW,
    settings: Settings = DEFAULTS,
    **facts: Any,
) -> Plan[settle.Settled] | settle.Settled | FairwayError:
    if verb in (Verb.RESCHEDULE, Verb.EXTEND):
        facts = {"delay": 9 * SECOND} | facts
    ask = settle.prove(Settle(verb, "q", "one", ackid.ack_id(held()), **facts))
    records = others if delivery is None else (delivery, *others)
    answer = settle.decide(ask, known(*records, settings=settings), now, CHANCE)
    assert isinstance(answer, Plan | settle.Settled | FairwayError)
    return answer


def ended(verb: Verb, delivery: Delivery, *others: Record, **facts: Any) -> Delivery:
    made = settled(verb, delivery, *others, **facts)
    assert isinstance(made, Plan)
    return versions(made)[0]


def name_of(id: str, generation: int) -> Entry:
    return NAME.next(None, NAME.key("q", "", "n"), Name(id, generation), 1)


def test_every_state_has_a_place_and_every_row_can_be_reached() -> None:
    assert set(PLACES) == set(State) - {State.LOGGED}
    for row in TABLE:
        earlier = [r for r in TABLE[: TABLE.index(row)] if (r.verb, r.place) == row[:2]]
        assert step(row.verb, row.place, {row.when}) == row, "hidden by a row above it"
        assert all(r.when is not When.ALWAYS for r in earlier)


# --- send


def test_a_new_message_is_logged_and_queued_at_the_end() -> None:
    made = plan(sent(delay=3 * SECOND, priority=1))
    [put] = made.change.puts
    [born] = versions(made)
    assert (put.was, born.state, born.generation) == (None, State.QUEUED, 1)
    assert (born.placed, born.at, born.sequence) == (NOW + 3 * SECOND, NOW + 3 * SECOND, 5)
    assert born.expires_at == born.at + DEFAULTS.message_ttl
    assert kinds(made) == ["logged", "queued"]
    assert made.answer.outcome == "queued"


@pytest.mark.parametrize("place", list(Place))
def test_the_same_content_is_a_duplicate_everywhere(place: Place) -> None:
    newest = waiting(place=place)
    made = plan(sent(), newest)
    assert (made.change.puts, made.change.messages) == ((), ())  # logged, without its body
    assert kinds(made) == ["logged", "duplicate"]
    assert made.answer.outcome == "duplicate"


@pytest.mark.parametrize("place", list(Place))
def test_the_policies_ignore_and_error(place: Place) -> None:
    newest = waiting(place=place)
    ignored = decided(sent("y"), newest, settings=Settings(duplicate="ignore"))
    assert isinstance(ignored, Plan)
    assert ignored.answer.outcome == "duplicate"
    for body, same in (("x", True), ("y", False)):
        refused = decided(sent(body), newest, settings=Settings(duplicate="error"))
        assert isinstance(refused, Duplicate)
        assert refused.facts == {"sameContent": same}


@pytest.mark.parametrize("place", [Place.HISTORY, Place.DEAD])
def test_what_ended_long_ago_or_said_something_else_is_followed_by_a_new_version(
    place: Place,
) -> None:
    at_rest = waiting(place=place, at=NOW)
    after_the_window = plan(sent(), at_rest, now=NOW + DEFAULTS.duplication_window)
    for made in (after_the_window, plan(sent("y"), at_rest)):
        [put] = made.change.puts
        [born] = versions(made)
        assert (put.was, born.generation, born.place) == (at_rest, 2, Place.WAITING)
        assert made.answer.outcome == "queued"


def test_newer_content_takes_the_place_in_line_of_what_waits() -> None:
    old = waiting(placed=NOW - 9, at=NOW - 9, sequence=1)
    made = plan(sent("y"), old)
    over, born = versions(made)
    assert (over.state, over.place, over.generation) == (State.OBSOLETE, Place.HISTORY, 1)
    assert (born.generation, born.placed, born.sequence) == (2, NOW - 9, 1)
    assert kinds(made) == ["logged", "obsolete", "updated"]
    assert made.change.events[1].cause == "send-y"
    assert made.change.puts[0].forgets == old.send


@pytest.mark.parametrize("change", [{"priority": 1}, {"delay": SECOND}])
def test_another_priority_or_delay_is_another_place_in_line(change: dict[str, int]) -> None:
    made = plan(sent("y", **change), waiting(placed=NOW - 9, at=NOW - 9))
    born = versions(made)[1]
    assert (born.placed, born.sequence) == (NOW + change.get("delay", 0), 5)


def test_newer_content_is_parked_behind_a_lease_and_ready_when_it_ends() -> None:
    parking = plan(sent("y", priority=1), held())
    [leased] = versions(parking)
    assert (leased.token, leased.at, leased.version) == (
        held().token,
        held().at,
        held().version + 1,
    )
    assert parking.answer.targets[0].parked
    for verb, state in {
        Verb.ACK: State.COMPLETED, Verb.NAK: State.OBSOLETE, Verb.REQUEUE: State.OBSOLETE,
        Verb.RELEASE: State.OBSOLETE, Verb.RESCHEDULE: State.OBSOLETE, Verb.REJECT: State.REJECTED,
    }.items():  # fmt: skip
        made = settled(verb, leased, now=NOW + 1)
        assert isinstance(made, Plan)
        old, ready = versions(made)
        assert (old.state, ready.state, ready.generation) == (state, State.QUEUED, 2)
        assert (ready.placed, ready.priority, ready.send) == (NOW + 1, 1, "send-y")
        assert (made.answer.replaced_by is not None) == (state is State.OBSOLETE)


def test_a_later_update_replaces_what_is_parked() -> None:
    [leased] = versions(plan(sent("y"), held()))
    assert plan(sent("y"), leased).answer.outcome == "duplicate"  # compared with the newest
    again = plan(sent("z"), leased)
    first, over, second = versions(again)
    assert (over.state, over.generation, over.send) == (State.OBSOLETE, 2, "send-y")
    assert second.memo.parked is not None
    assert (second.memo.parked.generation, second.memo.parked.send) == (3, "send-z")
    assert first.memo.parked is None
    assert kinds(again) == ["logged", "obsolete", "updated"]


def test_an_equal_head_of_another_message_ends_it_unchanged() -> None:
    other = waiting(id="other")
    print_ = other.fingerprint
    head = HEAD.next(None, HEAD.key("q", "", "o", "k"), Head(print_, "other", 1), 1)
    ask = sent(object="o", key="k", replaces="n")
    made = plan(ask, other, head)
    [put] = [put for put in made.change.puts if isinstance(put.now, Delivery)]
    assert (versions(made)[0].state, put.beside) == (State.UNCHANGED, False)
    assert kinds(made) == ["logged", "unchanged"]
    assert [e.body for e in made.change.messages] == [None]
    moved = [put.now for put in made.change.puts if isinstance(put.now, Entry)]
    assert [HEAD.read(entry).id for entry in moved] == ["one"]  # the head; the name is not taken
    for state in (State.EXHAUSTED, State.REJECTED, State.CANCELLED, State.OBSOLETE):
        gone = replace(other, state=state, place=PLACES[state])
        assert plan(ask, gone, head).answer.outcome == "queued"
    for state in (State.COMPLETED, State.KICKED, State.DECLINED, State.UNCHANGED):
        stands = replace(other, state=state, place=PLACES[state])
        assert plan(ask, stands, head).answer.outcome == "unchanged"
    for settings in (Settings(unchanged="deliver"),):
        delivered = decided(ask, other, head, settings=settings)
        assert isinstance(delivered, Plan)
        assert delivered.answer.outcome == "queued"


def test_the_newest_of_a_name_ends_what_waits_and_leaves_what_is_leased() -> None:
    ask = sent("y", id="two", replaces="n")
    made = plan(ask, waiting(memo=Memo(name="n")), name_of("one", 1))
    over, born = versions(made)
    assert (over.id, over.state, over.memo.successor) == ("one", State.OBSOLETE, "two")
    assert (born.id, born.state) == ("two", State.QUEUED)
    leased = held(memo=Memo(name="n"))
    touched, born = versions(plan(ask, leased, name_of("one", 1)))
    assert (touched, born.id) == (replace(leased, version=leased.version + 1), "two")
    # … and the leased one does not come back.
    assert ended(Verb.NAK, leased, name_of("two", 1)).state is State.OBSOLETE
    assert ended(Verb.ACK, leased, name_of("two", 1)).state is State.COMPLETED
    assert ended(Verb.NAK, leased, name_of("one", 1)).state is State.RETRY


# --- settle


@pytest.mark.parametrize(
    ("verb", "state", "place", "counted"),
    [
        (Verb.ACK, State.COMPLETED, Place.HISTORY, (0, 0, 0, 1)),
        (Verb.NAK, State.RETRY, Place.WAITING, (1, 0, 1, 1)),
        (Verb.REQUEUE, State.RETRY, Place.WAITING, (0, 1, 0, 1)),
        (Verb.REJECT, State.REJECTED, Place.DEAD, (0, 0, 1, 1)),
        (Verb.DECLINE, State.DECLINED, Place.HISTORY, (0, 0, 0, 1)),
        (Verb.RESCHEDULE, State.RETRY, Place.WAITING, (0, 0, 0, 1)),
        (Verb.RELEASE, State.QUEUED, Place.WAITING, (0, 0, 0, 0)),
    ],
)
def test_each_settle_of_a_held_delivery(
    verb: Verb, state: State, place: Place, counted: tuple[int, ...]
) -> None:
    made = settled(verb, held(), now=NOW + SECOND)
    assert isinstance(made, Plan)
    [put] = made.change.puts
    [moved] = versions(made)
    assert (put.was, put.hold, moved.state, moved.place) == (held(), Hold.RUNS, state, place)
    memo = moved.memo
    assert (memo.retries, memo.requeues, memo.errors, memo.deliveries) == counted
    assert (moved.token, moved.counted) == (held().token, ())
    assert len(made.change.events) == 1
    assert memo.redelivered == (state is State.RETRY)


def test_reschedule_begins_anew_and_moves_the_expiry() -> None:
    tired = held(memo=Memo(retries=7))
    moved = ended(Verb.RESCHEDULE, tired, delay=5 * SECOND)
    assert (moved.memo.retries, moved.at) == (0, NOW + 5 * SECOND)
    assert moved.expires_at == tired.expires_at + 5 * SECOND


def test_release_restores_the_old_place() -> None:
    first = held(placed=NOW - 9, sequence=1)
    assert (ended(Verb.RELEASE, first).placed, ended(Verb.RELEASE, first).sequence) == (NOW - 9, 1)
    delayed = ended(Verb.RELEASE, first, delay=SECOND)
    assert (delayed.placed, delayed.at, delayed.sequence) == (NOW + SECOND, NOW + SECOND, 1)


def test_the_last_nak_is_a_dead_letter_at_once() -> None:
    moved = ended(Verb.NAK, held(memo=Memo(deliveries=7, retries=7)))
    assert (moved.state, moved.memo.reason) == (State.EXHAUSTED, "retries-exhausted")
    assert ended(Verb.NAK, held(memo=Memo(retries=6))).state is State.RETRY


@pytest.mark.parametrize("verb", [Verb.NAK, Verb.REQUEUE, Verb.RESCHEDULE])
def test_a_delivery_wears_out(verb: Verb) -> None:
    moved = ended(verb, held(memo=Memo(deliveries=999)))
    assert (moved.state, moved.memo.reason) == (State.EXHAUSTED, "delivery-limit")
    assert ended(verb, held(memo=Memo(deliveries=998))).state is State.RETRY


@pytest.mark.parametrize("verb", [Verb.NAK, Verb.REQUEUE, Verb.RESCHEDULE, Verb.RELEASE])
def test_expiry_is_applied_when_the_lease_ends(verb: Verb) -> None:
    old = held(expires_at=NOW)
    moved = ended(verb, old)
    assert (moved.state, moved.memo.reason) == (State.EXHAUSTED, "message-expired")
    assert ended(Verb.ACK, old).state is State.COMPLETED  # ack wins


def test_a_nak_waits_for_its_back_off_or_its_delay() -> None:
    waits = [ended(Verb.NAK, held(memo=Memo(retries=n))).at - NOW for n in range(7)]
    # Half of 10, 20, 40 … s is fixed, half is random: three quarters at a draw of 0.5.
    assert waits == [w * SECOND for w in (7.5, 15, 30, 60, 120, 240, 480)]
    moved = ended(Verb.NAK, held(), delay=2 * SECOND)
    assert (moved.placed, moved.at, moved.sequence) == (NOW + 2 * SECOND, NOW + 2 * SECOND, 5)


def test_several_consumers_confirm() -> None:
    first = held(memo=Memo(confirmations=2))
    partly = ended(Verb.ACK, first)
    assert (partly.state, partly.place, partly.confirmed) == (State.PARTLY, Place.WAITING, "me")
    again = replace(first, confirmed="me")
    assert ended(Verb.ACK, again).state is State.PARTLY  # the same one again: counted once
    enough = ended(Verb.ACK, replace(first, confirmed="other"))
    assert enough.state is State.COMPLETED
    assert ended(Verb.RELEASE, again).state is State.PARTLY


SETTLES = [
    Verb.ACK,
    Verb.NAK,
    Verb.REQUEUE,
    Verb.REJECT,
    Verb.DECLINE,
    Verb.RESCHEDULE,
    Verb.RELEASE,
]


@pytest.mark.parametrize("verb", [*SETTLES, Verb.EXTEND])
def test_a_settle_without_the_lease_changes_nothing(verb: Verb) -> None:
    other = held(lease=replace(LEASE, claim=b"d" * 12))
    for delivery in (None, waiting(), other, held(token=1), held(generation=2)):
        assert isinstance(settled(verb, delivery), LeaseLost)
    assert isinstance(settled(verb, held(), now=held().at), LeaseLost)  # at the deadline


@pytest.mark.parametrize("verb", SETTLES)
@pytest.mark.parametrize("ended_by", SETTLES)
def test_the_holders_repeat(verb: Verb, ended_by: Verb) -> None:
    moved = ended(ended_by, held())
    again = settled(verb, moved, now=NOW + 999 * SECOND)
    if verb is ended_by:
        assert again == settle.Settled(moved.state)
    else:
        assert isinstance(again, AlreadySettled)


def test_extend_moves_the_deadline_and_never_back() -> None:
    def deadline(now: int, delay: int) -> int:
        made = settled(Verb.EXTEND, held(), now=now, delay=delay)
        assert isinstance(made, Plan)
        [longer] = versions(made)
        assert (longer.memo.pulses, made.change.events) == (1, ())
        assert made.answer.deadline_at == longer.at
        return longer.at - NOW

    assert deadline(NOW + 20 * SECOND, 30 * SECOND) == 50 * SECOND
    assert deadline(NOW + 20 * SECOND, SECOND) == 30 * SECOND
    assert deadline(NOW + 20 * SECOND, 12 * 3600 * SECOND) == 12 * 3600 * SECOND  # in all


# --- what the system does


def lapsed(delivery: Delivery, *others: Record, now: int | None = None) -> Any:
    at = delivery.at if now is None else now
    return settle.take_back(Return(held()), known(delivery, *others), at, CHANCE)


def test_a_lapse_counts_a_retry_and_shuts_out_the_late_holder() -> None:
    made = lapsed(held())
    [put] = made.change.puts
    [moved] = versions(made)
    assert (put.hold, moved.state, moved.memo.retries) == (Hold.OVER, State.RETRY, 1)
    assert made.change.events[0].reason == "lease-lapsed"
    assert isinstance(settled(Verb.ACK, moved, now=held().at), LeaseLost)


def test_the_lapse_of_the_last_lease_is_a_dead_letter() -> None:
    assert versions(lapsed(held(memo=Memo(retries=7))))[0].state is State.EXHAUSTED


def test_a_lapse_in_a_queue_that_was_deleted_cancels() -> None:
    gone = TARGET.next(None, TARGET.key("q"), Target(id="1", created=1, deleted=NOW), 1)
    assert versions(lapsed(held(), gone))[0].state is State.CANCELLED
    assert isinstance(settled(Verb.ACK, held(), gone), LeaseLost)


@pytest.mark.parametrize("newest", [waiting(), held(token=1), held()])
def test_a_lapse_that_came_too_late_or_too_early_is_none(newest: Delivery) -> None:
    assert isinstance(lapsed(newest, now=held().at - 1), settle.Settled)


def test_a_grant_has_a_larger_token_than_the_last_and_than_the_clock() -> None:
    demand = Demand("q", Lane(3, 0, ""), 1)
    assert claim.grant(waiting(), demand, STAMP)[0].token == NOW
    assert claim.grant(waiting(token=NOW + 7), demand, STAMP)[0].token == NOW + 8


def test_auto_ack_ends_with_the_grant() -> None:
    kicked, events = claim.grant(
        waiting(), Demand("q", Lane(3, 0, ""), 1), replace(STAMP, auto=True)
    )
    assert (kicked.state, kicked.place, kicked.memo.deliveries) == (State.KICKED, Place.HISTORY, 1)
    assert [e.kind for e in events] == ["leased", "kicked"]


def test_what_is_handed_out_says_who_holds_it_and_until_when() -> None:
    message = Message(send="s", id="one", organization="", created=NOW, mime_type="text/plain")
    memo = Memo(deliveries=2, retries=1, redelivered=True)
    given = claim.vet(Grant(held(memo=memo), message), NOW)
    assert isinstance(given, claim.Held)
    assert (given.attempt, given.retries, given.redelivered) == (3, 1, True)
    assert (given.deadline_at, given.window) == (NOW + LEASE.window, LEASE.window)
    proof = ackid.read(given.ack_id)
    assert (proof.token, proof.claim, proof.generation) == (given.token, LEASE.claim, 1)


def test_what_is_over_or_expired_when_it_is_read_back_is_not_handed_out() -> None:
    message = Message(send="s", id="one", organization="", created=NOW, mime_type="text/plain")
    for late in (held(at=NOW), held(expires_at=NOW)):
        back = claim.vet(Grant(late, message), NOW)
        assert back == Return(late, Verb.RELEASE)
        moved = versions(settle.take_back(back, known(late), NOW, CHANCE))[0]  # type: ignore[arg-type]
        assert moved.memo.deliveries == 0
        assert moved.state is (State.QUEUED if late.expires_at > NOW else State.EXHAUSTED)
