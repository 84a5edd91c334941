"""What is refused before anything is done: each with the field that it names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fairway.core import ackid, claim, operate, send, settings, settle, targets, task, topics
from fairway.core.claim import Receive
from fairway.core.copy import Terms
from fairway.core.errors import InvalidInput, LeaseLost
from fairway.core.lifecycle import Verb
from fairway.core.operate import Operate
from fairway.core.records import Filter, Key
from fairway.core.send import Send
from fairway.core.settings import Backoff, Retention, Settings
from fairway.core.settle import Settle
from fairway.core.targets import Arrange
from fairway.core.task import Task

YEAR = 366 * 24 * 3600 * 1_000_000


def sending(**facts: Any) -> Callable[[], object]:
    given = {"queue": "q", "body": b"", "mime_type": "text/plain"} | facts
    return lambda: send.check(Send(**given))


def receiving(**facts: Any) -> Callable[[], object]:
    return lambda: claim.check(Receive(**({"queue": "q"} | facts)))


def settling(verb: Verb, **facts: Any) -> Callable[[], object]:
    return lambda: settle.prove(Settle(verb, "q", "i", "lKABAcQA", **facts))


def changing(**facts: Any) -> Callable[[], object]:
    return lambda: operate.check(Operate(Verb.CHANGE, Key("q", "", "i"), **facts))


def setting(**facts: Any) -> Callable[[], object]:
    return lambda: settings.check(Settings(**facts))


def arranging(target: str, **facts: Any) -> Callable[[], object]:
    return lambda: targets.check(Arrange("create", target, **facts), 0)


def copying(rate: int = 100, **terms: Any) -> Callable[[], object]:
    wanted = Task(
        id="t",
        verb=Verb.RECOVER,
        target="q",
        where=Filter(),
        terms=Terms(**terms),
        rate=rate,
        created=1,
    )
    return lambda: task.check(wanted)


WRONG: dict[str, tuple[str, Callable[[], object]]] = {
    "a queue with a dot": ("queue", sending(queue="a.b")),
    "a topic of another queue": ("topics", sending(topics=["other.a"])),
    "a topic whose root is no name": ("topics", sending(queue=None, topics=["a b.c"])),
    "an empty topic": ("topics", sending(queue=None, topics=[""])),
    "a topic of 256 bytes": ("topics", sending(topics=["q." + "ü" * 127])),
    "33 topics": ("topics", sending(topics=[f"q.{n}" for n in range(33)])),
    "a line break in a topic": ("topics", sending(topics=["q.\n"])),
    "an object that must name a queue": ("object", sending(queue=None, object="no name")),
    "a path word as id": ("id", sending(id="pop-many")),
    "a dot as id": ("id", sending(id="..")),
    "an id with a slash": ("id", sending(id="a/b")),
    "an id of 129 letters": ("id", sending(id="a" * 129)),
    "priority 0": ("priority", sending(priority=0)),
    "a delay of more than a year": ("delay", sending(delay=YEAR + 1)),
    "no time to live": ("ttlMs", sending(ttl=0)),
    "an empty key": ("key", sending(key="")),
    "a lone surrogate": ("key", sending(key="\ud800")),
    "a name of 129 bytes": ("replaces", sending(replaces="a" * 129)),
    "no mime type": ("mimeType", sending(mime_type="")),
    "a mime type of 256 letters": ("mimeType", sending(mime_type="a" * 256)),
    "33 headers": ("headers", sending(headers={f"h{n}": "" for n in range(33)})),
    "headers of more than 8 KiB": ("headers", sending(headers={"a": "b" * 8192})),
    "a header with a space": ("headers", sending(headers={"a b": "c"})),
    "a header with a line break": ("headers", sending(headers={"a": "b\r\nc"})),
    "a body too large": ("body", sending(body=b"x" * 262_145)),
    "limit 0": ("limit", receiving(limit=0)),
    "a wait of more than 20 s": ("wait", receiving(wait=20_000_001)),
    "a lease of half a second": ("visibilityWindow", receiving(window=500_000)),
    "a consumer with a tab": ("consumer", receiving(consumer="a\tb")),
    "an organization too long": ("organization", receiving(organization="a" * 129)),
    "no service": ("service", receiving(service="")),
    "a reason of more than 1 KiB": ("reason", settling(Verb.NAK, reason="x" * 1025)),
    "an empty code": ("code", settling(Verb.REJECT, code="")),
    "no such severity": ("severity", settling(Verb.REJECT, severity="high")),
    "an extension of no window": ("visibilityWindow", settling(Verb.EXTEND)),
    "a negative delay": ("delay", settling(Verb.NAK, delay=-1)),
    "reschedule, but when": ("delay", settling(Verb.RESCHEDULE)),
    "a change of nothing": ("body", changing()),
    "a change to priority 9": ("priority", changing(priority=9)),
    "a change to a negative delay": ("delayMs", changing(delay=-1)),
    "a change to no time to live": ("ttlMs", changing(ttl=0)),
    "no such policy": ("duplicate", setting(duplicate="maybe")),
    "a window of 13 hours": ("visibilityWindow", setting(visibility_window=13 * 3_600_000_000)),
    "101 retries": ("maxRetries", setting(max_retries=101)),
    "shares that do not add up": ("shares", setting(shares=(40, 30, 20, 11))),
    "a negative share": ("shares", setting(shares=(110, -10, 0, 0))),
    "maxActive 0": ("maxActive.billing", setting(max_active={"billing": 0})),
    "a back-off that shrinks": ("backoff.maxMs", setting(backoff=Backoff(base=9, max=8))),
    "101 delays": ("backoff.delaysMs", setting(backoff=Backoff(delays=(1,) * 101))),
    "a negative delay in the list": ("backoff.delaysMs", setting(backoff=Backoff(delays=(1, -1)))),
    "a negative retention": ("retention.historyMs", setting(retention=Retention(history=-1))),
    "a target with a space": ("name", arranging("a b")),
    "a queue that subscribes": ("topics", arranging("q", topics=("a",))),
    "a channel that subscribes nothing": ("topics", arranging("channel:c")),
    "a star in the middle": ("topics", arranging("channel:c", topics=("a.*.b",))),
    "a star without a dot": ("topics", arranging("channel:c", topics=("a*",))),
    "settings in a creation": ("confirmations", arranging("q", settings=Settings(confirmations=0))),
    "no copies a second": ("rate", copying(rate=0)),
    "copies of priority 5": ("priority", copying(priority=5)),
    "copies of no time to live": ("ttlMs", copying(ttl=0)),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_it_names_the_field_and_says_what_may_be(wrong: str) -> None:
    field, check = WRONG[wrong]
    with pytest.raises(InvalidInput) as caught:
        check()
    assert caught.value.field == field
    assert len(caught.value.detail) > len(field) + 10


@pytest.mark.parametrize("text", ["", "x", "é", "====", "lKAB", "AAAA", "a" * 4000])
def test_a_text_that_proves_no_lease(text: str) -> None:
    with pytest.raises(LeaseLost):
        ackid.read(text)


def test_the_proof_of_another_organization() -> None:
    with pytest.raises(LeaseLost):
        settling(Verb.ACK, organization="other")()


@pytest.mark.parametrize(
    ("pattern", "topic", "matches"),
    [
        ("fruit.sweet", "fruit.sweet", True),
        ("fruit.sweet", "fruit.sweet.red", False),
        ("fruit.*", "fruit", True),
        ("fruit.*", "fruit.sour", True),
        ("fruit.*", "fruits.sour", False),
        ("*", "anything.at.all", True),
    ],
)
def test_what_a_channel_subscribes(pattern: str, topic: str, matches: bool) -> None:
    assert topics.check_patterns([pattern]) == (pattern,)
    assert topics.matches(pattern, topic) is matches
    assert topics.of_target("channel:c", [pattern], [topic]) == ([topic] if matches else [])


@pytest.mark.parametrize(
    ("facts", "queues", "found"),
    [
        ({"queue": "q"}, ["q"], ["q"]),
        ({"queue": "q", "topics": ["q.b", "q.a", "q.b"]}, ["q"], ["q.b", "q.a"]),
        ({"topics": ["b.x", "a", "b.y"]}, ["b", "a"], ["b.x", "a", "b.y"]),
        ({"object": "order"}, ["order"], ["order"]),
        ({}, ["default"], ["default"]),
    ],
)
def test_where_a_message_goes(facts: dict[str, Any], queues: list[str], found: list[str]) -> None:
    ask = send.check(Send(**({"body": b"", "mime_type": "text/plain"} | facts)))
    accepted = send.accept(ask, "s", "i", 1)
    assert (accepted.queues, accepted.message.topics) == (queues, found)


@pytest.mark.parametrize(
    ("mime_type", "body", "json"),
    [
        ("application/json", b'{"a": [1]}', True),
        ("Application/JSON; charset=utf-8", b"1", True),
        ("application/vnd.x+json", b"null", True),
        ("text/json", b"1", False),
        ("application/json", b'1},{"forged":2', False),
        ("application/json", b"\xff", False),
        ("application/json", b"[" * 100_000, False),
        ("application/json", b"", False),
    ],
)
def test_what_counts_as_json(mime_type: str, body: bytes, json: bool) -> None:
    ask = Send(queue="q", body=body, mime_type=mime_type)
    assert send.accept(send.check(ask), "s", "i", 1).message.json is json
