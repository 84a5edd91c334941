"""A random story: what is asked next, drawn from a seed, with all that the core knows."""

from __future__ import annotations

import random
from typing import Any

from msgspec.structs import replace

from fairway.core.claim import Held, Receive
from fairway.core.copy import Terms
from fairway.core.lifecycle import Verb
from fairway.core.operate import Operate
from fairway.core.records import Filter, Key
from fairway.core.send import Send
from fairway.core.settings import Backoff, Retention, Settings
from fairway.core.settle import Settle
from fairway.core.targets import Arrange
from fairway.core.task import Task

SECOND = 1_000_000
QUEUES = ("p", "q", "qq")
ORGANIZATIONS = ("", "", "acme", "zeta")
CONSUMERS = ("c1", "c2", "c3")
SETTLES = (
    Verb.ACK, Verb.ACK, Verb.NAK, Verb.NAK, Verb.REQUEUE, Verb.REJECT, Verb.DECLINE,
    Verb.RESCHEDULE, Verb.RELEASE, Verb.EXTEND,
)  # fmt: skip


class Story:
    """Draws the next step; knows what was granted, so that it can settle it late, twice, wrongly."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.held: list[Held] = []
        self.tickets = 0
        self.confirmations = 1 + seed % 2  # rare outcomes need a queue that stays as it is

    def begin(self) -> list[Arrange]:
        """The queues with settings of their own, before anything is sent."""
        return [Arrange("create", queue, self._settings()) for queue in QUEUES]

    def step(self) -> tuple[str, Any]:
        weights = {
            "send": 30, "receive": 25, "settle": 30, "operate": 6, "arrange": 3, "begin": 2,
            "run_tasks": 6, "retain": 1, "sweep": 6, "pass": 12,
        }  # fmt: skip
        [verb] = self.random.choices(list(weights), list(weights.values()))
        return verb, getattr(self, f"_{verb}")()

    def granted(self, held: list[Held]) -> None:
        self.held = [*self.held, *held][-60:]

    def _send(self) -> list[Send]:
        return [self._one() for _ in range(self.random.choice((1, 1, 1, 5)))]

    def _one(self) -> Send:
        r = self.random
        has_object = r.random() < 0.4
        queue = r.choice((*QUEUES, None))
        topics: list[str] = []
        if queue is None and r.random() < 0.9:
            topics = r.sample(["p.a", "q.a", "q.b", "qq"], r.randint(1, 3))
        id = None if r.random() < 0.4 else str(r.randrange(10))
        organization = r.choice(ORGANIZATIONS)
        if self.held and r.random() < 0.2:  # what is being worked on
            held = self.held[-1]
            id, organization, queue = held.message.id, held.message.organization, None
            topics = [f"{held.queue}.a"] if ":" not in held.queue else ["q.a"]
        return Send(
            queue=queue,
            topics=topics,
            body=r.choice((b"1", b"22", b"")),
            mime_type="application/json",
            id=id,
            organization=organization,
            object=r.choice(("order", "mail")) if has_object else None,
            key=r.choice("ab") if has_object else None,
            replaces=r.choice((None, None, None, "one", "two")),
            priority=r.randint(1, 4),
            delay=r.choice((0, 0, 0, 20 * SECOND)),
            ttl=r.choice((None, None, 3 * SECOND, 5 * SECOND, 30 * SECOND)),
        )

    def _receive(self) -> Receive:
        r = self.random
        return Receive(
            queue=r.choice((*QUEUES, "channel:all")),
            limit=r.choice((1, 2, 10)),
            window=r.choice((None, SECOND, 60 * SECOND, 60 * SECOND)),
            consumer=r.choice(CONSUMERS),
            service=r.choice(("default", "billing")),
            organization=r.choice((None, None, None, "acme")),
            auto=r.random() < 0.1,
        )

    def _settle(self) -> list[Settle]:
        r = self.random
        if not self.held:
            return []
        return [self._one_settle(r.choice(self.held)) for _ in range(r.choice((1, 1, 4)))]

    def _one_settle(self, held: Held) -> Settle:
        r = self.random
        held = r.choice((held, self.held[-1]))  # the last one holds its lease most often
        verb = r.choice(SETTLES)
        delay = r.choice((None, 0, 5 * SECOND))
        if verb in (Verb.EXTEND, Verb.RESCHEDULE):
            delay = r.choice((5 * SECOND, 100 * SECOND))
        ack_id = held.ack_id if r.random() < 0.95 else r.choice(self.held).ack_id
        return Settle(
            verb, held.queue, held.message.id, ack_id, delay=delay,
            reason=r.choice((None, "busy")), severity=r.choice((None, "critical")),
        )  # fmt: skip

    def _operate(self) -> list[Operate]:
        r = self.random
        verb = r.choice((Verb.CANCEL, Verb.CHANGE, Verb.CHANGE, Verb.PURGE, Verb.DELETE))
        key = Key(r.choice(QUEUES), r.choice(ORGANIZATIONS), str(r.randrange(10)))
        if self.held and r.random() < 0.5:
            held = self.held[-1]
            key = Key(held.queue, held.message.organization, held.message.id)
        ask = Operate(verb, key)
        if verb is Verb.CHANGE:
            ask = replace(
                ask,
                priority=r.choice((None, 1, 4)),
                delay=r.choice((0, 9 * SECOND)),
                ttl=99 * SECOND,
            )
        return [ask]

    def _arrange(self) -> Arrange:
        r = self.random
        target = r.choice(QUEUES)
        verb = r.choice(
            ("create", "alter", "alter", "alter", "pause", "resume", "resume", "delete")
        )
        if r.random() < 0.2:
            patterns = r.choice((("*",), ("q.*",), ("p.a", "qq")))
            verb = r.choice(("create", "create", "delete"))
            topics = patterns if verb == "create" else ()
            return Arrange(verb, "channel:all", topics=topics, force=True)
        settings = self._settings() if verb in ("create", "alter") else None
        return Arrange(verb, target, settings, force=r.random() < 0.3)

    def _settings(self) -> Settings:
        r = self.random
        return Settings(
            duplicate=r.choice(("update", "update", "ignore", "error")),
            unchanged=r.choice(("drop", "drop", "deliver")),
            max_retries=r.choice((1, 7)),
            max_deliveries=r.choice((2, 1000)),
            backoff=r.choice((Backoff(), Backoff(delays=(SECOND, 3 * SECOND)))),
            confirmations=self.confirmations,
            max_active=r.choice((None, {"*": 3}, {"billing": 10})),
            min_active=r.choice((1, 5)),
            borrow=r.random() < 0.3,
            max_queued=r.choice((5, 1_000_000)),
            retention=r.choice((Retention(), Retention(800 * SECOND, 9, 1500 * SECOND, 4))),
        )

    def _begin(self) -> Task:
        r = self.random
        self.tickets += 1
        target = r.choice(QUEUES)
        ticket = r.choice((self.tickets, max(1, self.tickets - 1)))
        return Task(
            id=f"ticket-{ticket}",
            verb=r.choice((Verb.PURGE, Verb.RECOVER, Verb.RECOVER, Verb.REPLAY)),
            target=target,
            where=Filter(target=target, organization=r.choice((None, "acme"))),
            terms=Terms(r.choice((None, 1)), r.choice((0, SECOND)), r.choice((None, 9 * SECOND))),
            rate=r.choice((100, 10_000)),
            dry_run=r.random() < 0.2,
            created=0,
        )

    def _nothing(self) -> None:
        return None

    _sweep = _run_tasks = _retain = _nothing

    def _pass(self) -> int:
        spans = (1, SECOND // 2, SECOND // 2, 4 * SECOND, 4 * SECOND, 15 * SECOND, 700 * SECOND)
        return self.random.choice(spans)
