"""The same stories through every door: in memory, in a file, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import fairway
from fairway.sync import Fairway
from tests.running import Server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(params=["memory", "sqlite", "http"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "http":
        return request.getfixturevalue("server").url
    return {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/fairway.db"}[request.param]


@pytest.fixture
def fw(url: str) -> Iterator[Fairway]:
    with fairway.connect(url) as opened:
        yield opened


@pytest.fixture
def queue(request: pytest.FixtureRequest) -> str:
    """A queue of the test's own, as the server is shared."""
    return f"q{abs(hash(request.node.nodeid))}"
