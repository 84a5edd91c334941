"""What holds for every test: one seed for all random choices of a run, and how async tests run."""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import hypothesis
import pytest

# Two loaded cores make single examples slow without anything being wrong, and an example that was
# kept from an earlier run would make the same seed another run.
hypothesis.settings.register_profile("fairway", deadline=None, database=None, print_blob=True)
hypothesis.settings.load_profile("fairway")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Before hypothesis's own configuration, which takes the seed from there."""
    seed = os.environ.setdefault("FAIRWAY_SEED", str(random.SystemRandom().getrandbits(32)))
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = seed


def pytest_report_header() -> str:
    seed = os.environ["FAIRWAY_SEED"]
    return f"seed: {seed} (FAIRWAY_SEED={seed} makes the same random choices again)"


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: pytest.ExitCode
) -> None:
    """With --quiet there is no header, and a failure must say how to have it again."""
    for line in _figures:
        terminalreporter.write_line(f"figure: {line}")
    if exitstatus != pytest.ExitCode.OK or terminalreporter.verbosity < 0:
        terminalreporter.write_line(pytest_report_header())


_figures: list[str] = []


@pytest.fixture(scope="session")
def figure() -> Callable[[str], None]:
    """Says a figure that a test found; printed at the end of the run, passed or not."""
    return _figures.append


@pytest.fixture(scope="session")
def run_seed() -> int:
    """The seed of this run, for a test that draws by itself."""
    return int(os.environ["FAIRWAY_SEED"])


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """`async def` tests run on asyncio, the only loop that Fairway speaks of."""
    return "asyncio"
