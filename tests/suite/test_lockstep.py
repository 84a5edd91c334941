"""All stores are one: the same random story, step by step, on a clock that only the story moves."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fairway.clock import Source
from fairway.core.claim import Held, Receive
from fairway.core.events import Event
from fairway.core.lifecycle import Verb
from fairway.core.send import Send
from fairway.core.settle import Settle
from fairway.engine.engine import Engine
from fairway.store.registry import open_store
from tests.suite.conftest import STORES, Hand, url_of

STEPS = 1_500
SECOND = 1_000_000


class Story:
    """Draws the next step; knows what was granted, so that it can settle it late, twice or wrongly."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.held: list[Held] = []

    def step(self) -> tuple[str, Any]:
        verb = self.random.choices(
            ("send", "receive", "settle", "lapse", "pass"), (30, 25, 30, 5, 10)
        )[0]
        return verb, getattr(self, f"_{verb}")()

    def _send(self) -> list[Send]:
        return [self._one() for _ in range(self.random.choice((1, 1, 1, 5)))]

    def _one(self) -> Send:
        r = self.random
        return Send(
            queue=r.choice("pq"),
            body=r.choice((b"1", b"22", b"")),
            mime_type="application/json",
            id=None if r.random() < 0.4 else str(r.randrange(12)),
            organization=r.choice(("", "", "acme")),
            priority=r.randint(1, 4),
            delay=r.choice((0, 0, 0, 20 * SECOND)),
        )

    def _receive(self) -> Receive:
        r = self.random
        window = r.choice((None, SECOND, 60 * SECOND))
        return Receive(queue=r.choice("pq"), limit=r.choice((1, 2, 10)), window=window)

    def _settle(self) -> list[Settle]:
        r = self.random
        verbs = (Verb.ACK, Verb.NAK, Verb.NAK, Verb.REJECT)
        chosen = (
            [r.choice(self.held[-30:]) for _ in range(r.choice((1, 1, 4)))] if self.held else []
        )
        return [
            Settle(
                r.choice(verbs),
                held.queue,
                held.message.id,
                held.ack_id if r.random() < 0.95 else r.choice(self.held).ack_id,
                delay=r.choice((None, 0, 5 * SECOND)),
            )
            for held in chosen
        ]

    def _lapse(self) -> None:
        return None

    def _pass(self) -> int:
        return self.random.choice((1, SECOND // 2, 15 * SECOND, 700 * SECOND))


async def play(engine: Engine, clock: Hand, verb: str, ask: Any) -> Any:
    if verb == "pass":
        return None
    if verb == "lapse":
        return await engine.lapse()
    answer: Sequence[Any] = list(await getattr(engine, verb)(ask))
    # Errors are equal when they say the same.
    return [repr(item) if isinstance(item, Exception) else item for item in answer]


async def test_all_stores_tell_the_same_story(
    tmp_path: Path, run_seed: int, figure: Callable[[str], None]
) -> None:
    clock, story = Hand(), Story(run_seed)
    engines = [
        Engine(await open_store(url_of(name, tmp_path), clock), clock, Source(clock, run_seed))
        for name in STORES
    ]
    outcomes: Counter[str] = Counter()
    try:
        for number in range(STEPS):
            verb, ask = story.step()
            if verb == "pass":
                clock.now += ask
            first, *others = [await play(engine, clock, verb, ask) for engine in engines]
            assert all(other == first for other in others), (number, verb, ask, first, others)
            if verb == "receive":
                story.held += first
        first, *others = [await everything(engine) for engine in engines]
        assert all(other == first for other in others)
        outcomes.update(event.kind for event in first)
    finally:
        for engine in engines:
            await engine.close()
    figure(
        f"lockstep of {' and '.join(STORES)}: {STEPS} steps, events {dict(sorted(outcomes.items()))}"
    )
    reached = {
        "queued",
        "updated",
        "obsolete",
        "duplicate",
        "leased",
        "completed",
        "nak",
        "rejected",
    }
    assert reached | {"lapse", "exhausted"} <= set(outcomes), "the story became too tame"
    check_conservation(first)


async def everything(engine: Engine) -> list[Event]:
    found: list[Event] = []
    while page := await engine.events(0, len(found), 1_000):
        found += [logged.event for logged in page]
    return found


def check_conservation(events: list[Event]) -> None:
    """From the log alone: each accepted send has one outcome, each version at most one ending."""
    kinds = Counter(event.kind for event in events)
    assert kinds["logged"] == kinds["queued"] + kinds["updated"] + kinds["duplicate"]
    ends = Counter(
        (e.target, e.organization, e.id, e.generation)
        for e in events
        if e.kind in ("completed", "rejected", "exhausted", "obsolete")
    )
    assert set(ends.values()) == {1}
