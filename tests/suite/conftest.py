"""Every store of this machine, opened on a clock that the test moves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fairway.store.contract import Store
from fairway.store.registry import open_store

STORES = ("memory", "sqlite")


class Hand:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000_000

    def __call__(self) -> int:
        return self.now


def url_of(store: str, folder: Path) -> str:
    return {"memory": "memory://", "sqlite": f"sqlite:///{folder}/fairway.db"}[store]


@pytest.fixture
def clock() -> Hand:
    return Hand()


@pytest.fixture(params=STORES)
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, clock: Hand
) -> AsyncIterator[Store]:
    opened = await open_store(url_of(request.param, tmp_path), clock)
    yield opened
    await opened.close()
