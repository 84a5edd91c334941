"""One story through every layer: sent, leased, settled, logged, and read back as a table."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import fairway
from fairway.core.events import ENDINGS
from fairway.sync import Fairway
from tests.running import Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MESSAGES = 120


class Finished(NamedTuple):
    """A finished delivery, as the storyteller knows it: (queue, id, generation) → how it ended."""

    queue: str
    id: str
    generation: int
    outcome: str
    leases: int


def tell(fw: Fairway, seed: int) -> set[Finished]:
    """Sends and settles at random through the public door; what must be in the table afterwards."""
    chance = random.Random(seed)
    ended: set[Finished] = set()
    leases: Counter[tuple[str, str, int]] = Counter()
    versions: dict[tuple[str, str], int] = {}
    for i in range(MESSAGES):
        queue, id = chance.choice(("orders", "mails")), f"m{chance.randrange(MESSAGES)}"
        answer = fw.send(f"{queue}.new", {"i": i % 3}, id=id, priority=chance.randint(1, 4))
        before = versions.get((queue, id))
        versions[queue, id] = answer.targets[0].generation
        if answer.outcome == "updated":
            assert before is not None
            ended.add(Finished(queue, id, before, "O", 0))
    for _ in range(12):
        for queue in ("orders", "mails"):
            for d in fw.receive(queue, limit=8):
                version = (queue, d.id, versions[queue, d.id])
                leases[version] += 1
                settled = chance.choice((d.ack, d.ack, d.reject, lambda d=d: d.nak(delay=0)))()
                if settled.state in "XEI":
                    ended.add(Finished(*version, settled.state, leases[version]))
    return {row._replace(leases=leases[row[:3]]) for row in ended}


def from_the_log(fw: Fairway) -> set[Finished]:
    """The same, as the event log tells it."""
    leases: Counter[tuple[str, str, int]] = Counter()
    ended: set[Finished] = set()
    for logged in fw.events():
        e = logged.event
        version = (e.target, e.id, e.generation)
        leases[version] += e.kind == "leased"
        if e.kind in ENDINGS:
            ended.add(Finished(*version, e.letter, leases[version]))
    return ended


def from_the_lake(spark: SparkSession, folder: Path) -> list[Finished]:
    from fairway.spark import frames
    from fairway.spark.tables import Lake

    with Lake(folder) as lake:
        rows = lake.table("deliveries", frames.DELIVERIES).read(spark).collect()
    return [
        Finished(r["target"], r["id"], r["generation"], r["outcome"], r["leases"]) for r in rows
    ]


def state_of(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file of a lake, with its size and when it was written."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "lock")
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


def test_in_memory_the_log_says_what_was_sent_and_settled(run_seed: int) -> None:
    with fairway.connect("memory://") as fw:
        told = tell(fw, run_seed)
        assert from_the_log(fw) == told
    assert {row.outcome for row in told} >= {"X", "I"}


def test_from_a_file_the_table_says_what_was_sent_and_settled(
    spark: SparkSession, tmp_path: Path, run_seed: int
) -> None:
    from fairway.spark.jobs import run_once
    from fairway.spark.tables import Lake

    url, folder = f"sqlite:///{tmp_path}/fairway.db", tmp_path / "lake"
    with fairway.connect(url) as fw:
        told = tell(fw, run_seed)
        with Lake(folder) as lake:
            report = run_once(spark, url, lake)
        found = from_the_lake(spark, folder)
        assert (set(found), len(found)) == (told, len(told))
        assert report.outcomes == Counter(row.outcome for row in told)

        before = state_of(folder)
        with Lake(folder) as lake:
            again = run_once(spark, url, lake)
        assert (again.new, again.outcomes, state_of(folder)) == (0, report.outcomes, before)

        # What was left open is finished later, by another batch, with all that came before it.
        rest = {(q, d.id): d for q in ("orders", "mails") for d in fw.receive(q, limit=500)}
        for d in rest.values():
            d.ack()
        with Lake(folder) as lake:
            assert run_once(spark, url, lake).open == 0
        assert set(from_the_lake(spark, folder)) == from_the_log(fw)


def test_over_http_the_table_says_what_was_sent_and_settled(
    spark: SparkSession, tmp_path: Path, run_seed: int
) -> None:
    folder = tmp_path / "lake"
    with Server(tmp_path / "data") as server:
        with fairway.connect(server.url) as fw:
            told = tell(fw, run_seed)
        command = [sys.executable, "-m", "fairway", "pipeline", "run", "--once"]
        command += ["--url", server.url, "--lake", str(folder)]
        first = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert first.returncode == 0, first.stderr
        found = from_the_lake(spark, folder)
        assert (set(found), len(found)) == (told, len(told))
        assert f"deliveries {len(told)}:" in first.stdout

        before = state_of(folder)
        second = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert (second.returncode, state_of(folder)) == (0, before)
        assert f"deliveries {len(told)}:" in second.stdout
