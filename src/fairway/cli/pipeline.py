"""`fairway pipeline …`: makes tables of the event log. Spark is imported only by its commands."""

from __future__ import annotations

import contextlib
import logging
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator
from types import FrameType
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from fairway.spark.jobs import Report

UNITS: Final = {"s": 1, "m": 60, "h": 3600}
PACKAGES: Final = {"pyspark", "deltalake", "pyarrow", "pandas", "py4j"}
RETRIED: Final = "FAIRWAY_UNREACHABLE"


class Span(click.ParamType[int]):
    """A time like 30s, 1m or 2h, in seconds."""

    name = "span"

    def convert(
        self, value: str | int, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"([1-9]\d*)([smh])", value)
        if not found:
            self.fail(f"{value!r} is not a span like 30s, 1m or 2h", param, ctx)
        return int(found[1]) * UNITS[found[2]]


class MissingExtra(click.ClickException):
    """Spark's packages are not installed."""

    exit_code = 2

    def __init__(self, package: str) -> None:
        super().__init__(f'{package} is not installed: pip install "fairway[spark]"')


class Passes(threading.Thread):
    """Pass after pass, in a thread: so a signal finds the main one free, whatever Spark does, and
    no exception comes up in the middle of its Python. It ends, at the latest, when its Java does.
    """

    def __init__(
        self, one_pass: Callable[[], None], every: int | None, ended: threading.Event
    ) -> None:
        super().__init__(name="passes", daemon=True)
        self._one_pass = one_pass
        self._every = every
        self._ended = ended
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            while True:
                began = time.monotonic()
                self._one_pass()
                if self._every is None:
                    return
                if self._ended.wait(max(0.0, began + self._every - time.monotonic())):
                    return
        except Exception as error:  # noqa: BLE001 (the main thread raises it again)
            self.error = error
        finally:
            self._ended.set()


@click.group()
def pipeline() -> None:
    """Make tables of the event log, with Spark."""


@pipeline.command()
@click.option("--once", is_flag=True, help="One pass, then end.")
@click.option("--every", type=Span(), help="A pass every so often (30s, 1m, 2h), until stopped.")
@click.option(
    "--url", envvar="FAIRWAY_URL", default="http://127.0.0.1:7070", show_default=True,
    help="Whose log: http://… or sqlite:///…",
)  # fmt: skip
@click.option(
    "--lake", default="fairway-data/lake", show_default=True, type=click.Path(file_okay=False),
    help="The folder of the tables.",
)  # fmt: skip
@click.option("--master", default="local[*]", show_default=True, help="Where Spark runs.")
def run(once: bool, every: int | None, url: str, lake: str, master: str) -> None:
    """Bring the tables of the lake up to the end of the event log."""
    if once == (every is not None):
        raise click.UsageError("say --once, or --every with a span")
    _show_log("fairway.spark")
    with _signals() as ended:  # first: the imports alone take a second
        _run(every, url, lake, master, ended)


def _run(every: int | None, url: str, lake: str, master: str, ended: threading.Event) -> None:
    try:
        from fairway.spark import java, jobs, session, tables
        from pyspark_fairway.client import url_of
        from pyspark_fairway.errors import ConnectorError
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in PACKAGES:
            raise
        raise MissingExtra(package) from None

    def one_pass() -> None:
        try:
            click.echo(line(jobs.run_once(session.start(master=master), url, opened)))
        except ConnectorError as error:
            if every is None or error.code != RETRIED:
                raise
            click.echo(f"{error} (tried again every {every} s)", err=True)

    try:
        url_of(url)  # what cannot be right is refused before Java starts
        with tables.Lake(lake) as opened:
            passes = Passes(one_pass, every, ended)
            passes.start()
            ended.wait()
            failed = passes.error  # what fails from now on fails because Java is being ended
            while passes.is_alive():
                session.stop()  # nothing to stop yet while Java is starting, so again
                passes.join(0.1)
            session.stop()
            if failed:
                raise failed
    except (ConnectorError, java.NoJava) as error:
        raise click.ClickException(str(error)) from error


def line(report: Report) -> str:
    """What a pass found, most frequent outcome first."""
    total = sum(report.outcomes.values())
    most_first = sorted(report.outcomes.items(), key=lambda found: (-found[1], found[0]))
    outcomes = ", ".join(f"{letter} {count}" for letter, count in most_first)
    through = sorted(report.through.items())
    places = ", ".join(
        f"position {at}" if len(through) == 1 else f"position {shard}:{at}" for shard, at in through
    )
    counted = f"deliveries {total}: {outcomes}" if outcomes else f"deliveries {total}"
    return f"{counted} (new {report.new}, open {report.open}, through {places})"


@contextlib.contextmanager
def _signals() -> Generator[threading.Event]:
    """SIGINT and SIGTERM set the event, and do nothing else."""
    ended = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        ended.set()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield ended
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _show_log(name: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger = logging.getLogger(name)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
