"""Placements on every store: what one leaves, the others leave too."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from fairway.clock import Source
from fairway.engine.engine import Engine
from fairway.store.registry import open_store
from tests.core.test_place import Pair, one
from tests.suite.conftest import STORES, url_of
from tests.suite.test_lockstep import everything


@pytest.mark.parametrize("story", range(10))
async def test_placements_leave_the_same_on_every_store(
    tmp_path: Path, story: int, run_seed: int
) -> None:
    seed = story if story < 5 else run_seed + story
    left = []
    for name in STORES:
        pair = Pair("spark")
        store = await open_store(url_of(name, tmp_path), pair.clock)
        pair.engine = Engine(store, pair.clock, Source(pair.clock, 1))
        await pair.begin()
        for number in range(4):
            r = random.Random(seed * 10 + number)
            pair.now += 1
            await pair.send(*(one(r) for _ in range(r.randint(1, 10))))
            await pair.place()
            await pair.work(random.Random(seed))
        left.append((await everything(pair.engine), await pair.fates()))
        await store.close()
    assert all(other == left[0] for other in left)
