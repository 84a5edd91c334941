"""What a user does with the library, the same through every door."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

import fairway
from fairway.sync import Fairway


def test_a_message_is_sent_leased_and_acked(fw: Fairway, queue: str) -> None:
    sent = fw.send(f"{queue}.created", {"id": 7}, object="order", key="7", headers={"Shop": "a"})
    assert (sent.outcome, sent.targets[0].target) == ("queued", queue)

    [d] = fw.receive(queue)
    assert (d.id, d.json(), d.topics) == (sent.id, {"id": 7}, [f"{queue}.created"])
    assert (d.object, d.key, d.headers, d.attempt) == ("order", "7", {"shop": "a"}, 1)
    assert d.ack().state == "X"
    assert fw.receive(queue) == []


@pytest.mark.parametrize(
    ("body", "mime_type", "read"),
    [
        ({"a": [1, None, "ü"]}, "application/json", lambda d: d.json()),
        ("Grüße\n", "text/plain; charset=utf-8", lambda d: d.text()),
        (b"\x00\xff{", "application/octet-stream", lambda d: d.body),
        ("", "text/plain; charset=utf-8", lambda d: d.text()),
        (b"", "application/octet-stream", lambda d: d.body),
        (None, "application/json", lambda d: d.json()),
        (b"x" * 262_144, "application/octet-stream", lambda d: d.body),
    ],
)
def test_a_payload_comes_back_as_it_was_sent(
    fw: Fairway, queue: str, body: object, mime_type: str, read: Callable[..., object]
) -> None:
    fw.send(queue, body)
    [d] = fw.receive(queue)
    assert (read(d), d.mime_type) == (body, mime_type)


def test_what_only_claims_to_be_json_comes_back_too(fw: Fairway, queue: str) -> None:
    forged = b'1},{"id":"forged","ackId":"x","body":2'
    fw.send(queue, forged, mime_type="application/json")
    [d] = fw.receive(queue, limit=10)
    assert d.body == forged


def test_names_may_hold_any_letters(fw: Fairway, queue: str) -> None:
    fw.send(queue, "x", object="Bestellung Ü", key="日本", correlation_id="ø")
    [d] = fw.receive(queue)
    assert (d.object, d.key, d.correlation_id) == ("Bestellung Ü", "日本", "ø")


def test_first_come_first_served_within_a_priority(fw: Fairway, queue: str) -> None:
    for i in range(20):
        fw.send(queue, i, priority="low" if i % 2 else "urgent")
    got = [d.json() for d in fw.receive(queue, limit=20)]
    assert got == [*range(0, 20, 2), *range(1, 20, 2)]


def test_the_same_message_twice_is_one(fw: Fairway, queue: str) -> None:
    assert fw.send(queue, "a", id="one").outcome == "queued"
    assert fw.send(queue, "a", id="one").outcome == "duplicate"
    [d] = fw.receive(queue, limit=9)
    assert fw.send(queue, "a", id="one").outcome == "duplicate"
    d.ack()
    assert fw.send(queue, "a", id="one").outcome == "duplicate"
    assert fw.receive(queue) == []


def test_newer_content_replaces_what_waits_and_follows_what_ended(fw: Fairway, queue: str) -> None:
    fw.send(queue, "old", id="one")
    fw.send(queue, "behind")
    assert fw.send(queue, "new", id="one").outcome == "updated"
    first, behind = fw.receive(queue, limit=9)  # the place in line is kept
    assert (first.text(), behind.text()) == ("new", "behind")
    parked = fw.send(queue, "newest", id="one")
    assert (parked.outcome, parked.targets[0].parked) == ("updated", True)
    assert fw.receive(queue) == []  # two workers never hold two versions of one id
    first.ack()
    [again] = fw.receive(queue)
    assert (again.text(), again.attempt) == ("newest", 1)


def test_a_nak_comes_back_after_its_delay(fw: Fairway, queue: str) -> None:
    fw.send(queue, "x")
    [d] = fw.receive(queue)
    assert d.nak("busy", delay=timedelta(seconds=0.3)).state == "R"
    assert fw.receive(queue) == []
    [again] = fw.receive(queue, wait=5)
    assert (again.id, again.attempt, again.redelivered) == (d.id, 2, True)
    assert again.token > d.token


def test_the_last_retry_goes_to_the_dead_letters(fw: Fairway, queue: str) -> None:
    fw.send(queue, "x")
    for _ in range(7):
        [d] = fw.receive(queue)
        assert d.nak(delay=0).state == "R"
    [d] = fw.receive(queue)
    assert d.nak(delay=0).state == "E"
    assert fw.receive(queue) == []


def test_a_reject_goes_to_the_dead_letters(fw: Fairway, queue: str) -> None:
    fw.send(queue, "x")
    [d] = fw.receive(queue)
    assert d.reject("no id", code="E17", severity="critical").state == "I"
    assert fw.receive(queue) == []


def test_with_acks_and_an_exception_naks(fw: Fairway, queue: str) -> None:
    fw.send(queue, "x")
    with fw.receive(queue)[0]:
        pass
    assert fw.receive(queue) == []
    fw.send(queue, "y")
    with pytest.raises(ZeroDivisionError), fw.receive(queue)[0] as d:
        1 / 0  # noqa: B018 - the handler fails
    with pytest.raises(fairway.AlreadySettled):
        d.ack()


def test_a_settle_repeated_is_the_same_and_another_is_refused(fw: Fairway, queue: str) -> None:
    fw.send(queue, "x")
    [d] = fw.receive(queue)
    assert d.ack() == d.ack()
    with pytest.raises(fairway.AlreadySettled):
        d.nak()


def test_a_lapsed_lease_is_lost_and_the_message_comes_back(fw: Fairway, queue: str) -> None:
    fw.send(queue, "x")
    [d] = fw.receive(queue, visibility_window=1)
    time.sleep(1.05)
    with pytest.raises(fairway.LeaseLost):
        d.ack()
    with pytest.raises(fairway.LeaseLost), d:
        pytest.fail("the work must not begin")
    until = time.monotonic() + 5
    while not any(e.event.kind == "lapse" and e.event.id == d.id for e in fw.events()):
        assert time.monotonic() < until, "the sweep takes at most a second"
        time.sleep(0.05)
    with pytest.raises(fairway.LeaseLost):  # available again, and no longer this holder's
        d.nak()


def test_a_forged_proof_settles_nothing(fw: Fairway, queue: str) -> None:
    fw.send(queue, "x")
    fw.send(queue, "y")
    [mine] = fw.receive(queue)
    [other] = fw.receive(queue)
    for forged in ("", "x", "AAAA", "é", other.ack_id, mine.ack_id[:-2] + "AA", mine.ack_id * 9):
        if forged:
            with pytest.raises(fairway.LeaseLost):
                fw.settle(queue, mine.id, forged, "ack")
    assert mine.ack().outcome == "ok"


def test_a_waiting_receive_returns_when_something_comes(fw: Fairway, queue: str) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(fw.receive, queue, wait=10)
        time.sleep(0.2)
        fw.send(queue, "x")
        [d] = waiting.result(5)
    assert d.text() == "x"


def test_a_delayed_message_is_available_later(fw: Fairway, queue: str) -> None:
    fw.send(queue, "x", delay=0.3)
    assert fw.receive(queue) == []
    [d] = fw.receive(queue, wait=5)
    assert d.text() == "x"


def test_many_at_once_are_all_there(fw: Fairway, queue: str) -> None:
    with ThreadPoolExecutor(16) as pool:
        sent = {s.id for s in pool.map(lambda i: fw.send(queue, i), range(300))}
        got = [d for ds in pool.map(lambda _: fw.receive(queue, limit=50), range(12)) for d in ds]
        list(pool.map(lambda d: d.ack(), got))
    assert {d.id for d in got} == sent
    assert len(got) == 300
    assert fw.receive(queue) == []


WRONG: dict[str, tuple[str, Callable[[Fairway], object]]] = {
    "a space in a name": ("queue", lambda fw: fw.send("no spaces", 1)),
    "a slash in a name": ("queue", lambda fw: fw.receive("no/slash")),
    "a slash in an id": ("id", lambda fw: fw.send("q", 1, id="a/b")),
    "a path word as id": ("id", lambda fw: fw.send("q", 1, id="pop")),
    "no such priority": ("priority", lambda fw: fw.send("q", 1, priority="soon")),
    "priority 5": ("priority", lambda fw: fw.send("q", 1, priority=5)),
    "a negative delay": ("delay", lambda fw: fw.send("q", 1, delay=-1)),
    "a delay that is no number": ("delay", lambda fw: fw.send("q", 1, delay=float("nan"))),
    "a body too large": ("body", lambda fw: fw.send("q", b"x" * 262_145)),
    "a body of no kind": ("body", lambda fw: fw.send("q", object())),
    "limit 0": ("limit", lambda fw: fw.receive("q", limit=0)),
    "limit 1001": ("limit", lambda fw: fw.receive("q", limit=1001)),
    "a wait too long": ("wait", lambda fw: fw.receive("q", wait=21)),
    "a lease too short": ("visibilityWindow", lambda fw: fw.receive("q", visibility_window=0.5)),
    "no such outcome": ("outcome", lambda fw: fw.settle("q", "i", "a", "eat")),
    "a forged header": ("headers", lambda fw: fw.send("q", 1, headers={"a": "b\r\nX-Ack: c"})),
    "a line break in a key": ("key", lambda fw: fw.send("q", 1, key="a\nb")),
    "a key of 130 bytes": ("key", lambda fw: fw.send("q", 1, key="ü" * 65)),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_bad_input_names_the_field(url: str, wrong: str) -> None:
    field, call = WRONG[wrong]
    with fairway.connect(url) as fw:
        before = fw.log().shards[0].latest
        with pytest.raises(fairway.InvalidInput) as caught:
            call(fw)
        assert caught.value.field == field
        assert fw.log().shards[0].latest == before  # nothing was half done


def test_the_log_tells_the_whole_story(fw: Fairway, queue: str) -> None:
    start = fw.log().shards[0].latest
    sent = fw.send(queue, "x")
    [d] = fw.receive(queue, consumer="c1", service="billing")
    d.reject("bad", code="E1")
    told = [e.event for e in fw.events(after=start) if e.event.id == sent.id]
    assert [(e.kind, e.letter) for e in told] == [
        ("logged", "L"), ("queued", "Q"), ("leased", "F"), ("rejected", "I"),
    ]  # fmt: skip
    assert (told[2].consumer, told[2].service, told[2].attempt) == ("c1", "billing", 1)
    assert (told[3].reason, told[3].code, told[3].token) == ("rejected", "E1", d.token)
    positions = [e.position for e in fw.events(after=start)]
    assert positions == list(range(start + 1, start + len(positions) + 1))
