"""What Fairway costs on the first day: from a clone to the first message, its size, its import.

    python3 bench/first_day.py                        all three
    python3 bench/first_day.py import                 one of: start, package, import
    python3 bench/first_day.py --out bench/results/first_day.json

Everything is done with a fresh clone in a temporary folder, by the README's own lines. What is
started is stopped again, by its process id. Needs git, curl, and the registry that pip uses.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import json
import os
import pathlib
import platform
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

CHECKOUT = pathlib.Path(__file__).resolve().parent.parent

SECONDS_TO_THE_FIRST_MESSAGE = 60
INSTALLED_MB = 40
TIMES_THE_CONTROL = 2.0
CONTROL_MAY_VARY = 0.30
ROUNDS = 5
RUNS_IN_A_ROUND = 30

GIVE_UP_AFTER_SECONDS = 900  # of waiting for Spark on a slow line; then it is reported as not come
TIME_TO_END_SECONDS = 60


class Figure(NamedTuple):
    """One measured number, with its target if it has one."""

    name: str
    value: float | None
    unit: str
    target: float | None = None
    detail: str = ""

    @property
    def is_met(self) -> bool:
        return self.target is None or (self.value is not None and self.value <= self.target)

    def __str__(self) -> str:
        value = "none" if self.value is None else f"{self.value:.2f} {self.unit}"
        target = "reported" if self.target is None else f"target ≤ {self.target:g} {self.unit}"
        verdict = "" if self.target is None else ("  met" if self.is_met else "  MISSED")
        return f"{self.name:<46} {value:>12}   {target}{verdict}   {self.detail}".rstrip()


class Bench:
    """A temporary folder with what the measurements share: clones, and a venv with the package."""

    def __init__(self, scratch: pathlib.Path, take_uncommitted: bool) -> None:
        self.scratch = scratch
        self.take_uncommitted = take_uncommitted
        self.figures: list[Figure] = []

    def report(self, figure: Figure) -> None:
        self.figures.append(figure)
        print(figure, flush=True)

    def clone(self, name: str) -> pathlib.Path:
        folder = self.scratch / name
        if not folder.exists():
            call(["git", "clone", "--quiet", CHECKOUT, folder])
            if self.take_uncommitted:
                copy_work_tree(folder)
        return folder

    def venv_with_package(self) -> pathlib.Path:
        """An environment with nothing but the wheel and what it asks for, as pip leaves it."""
        venv = self.scratch / "venv"
        if not venv.exists():
            clone = self.clone("to-build")
            call([sys.executable, "tools/install.py", "core"], cwd=clone)
            tools = clone / ".venv" / "bin"
            build = [tools / "python", "-m", "hatchling", "build", "-t", "wheel"]
            call([*build, "-d", self.scratch / "wheel"], cwd=clone)
            (wheel,) = (self.scratch / "wheel").glob("*.whl")
            call([sys.executable, "-m", "venv", "--without-pip", venv])
            uv = [tools / "uv", "pip", "install", "--quiet", "--python", venv / "bin" / "python"]
            call([*uv, "--compile-bytecode", wheel])  # pip does that too, and it takes space
        return venv


def copy_work_tree(folder: pathlib.Path) -> None:
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in filter(None, call(listing, cwd=CHECKOUT).split("\0")):
        if (CHECKOUT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(CHECKOUT / name, folder / name)


# --- from ./run to the first message


def measure_start(bench: Bench) -> None:
    """Twice with the same caches, which the first finds empty."""
    caches = {name: str(bench.scratch / name) for name in ("UV_CACHE_DIR", "PIP_CACHE_DIR")}
    for state, target in [("empty", None), ("warm", SECONDS_TO_THE_FIRST_MESSAGE)]:
        clone = bench.clone(f"{state}-caches")
        with running(clone, caches) as run:
            message_after = run.seconds_until(run.accepts_the_first_message)
            name = f"./run to the first message, {state} caches"
            bench.report(Figure(name, message_after, "s", target))
            spark_after = run.seconds_until(run.has_said_how_spark_is)
            said = (run.spark_line or "").partition(":")[0]
            bench.report(
                Figure(f"./run to the Spark line, {state} caches", spark_after, "s", None, said)
            )
        bench.report(Figure(f"Ctrl-C to the end, {state} caches", run.seconds_to_end, "s"))


class Run:
    """A `./run` that was started, and what it printed."""

    def __init__(self, clone: pathlib.Path, environment: dict[str, str]) -> None:
        self.port = free_port()
        self.message = first_curl_line(clone / "README.md").replace("7070", str(self.port))
        self.spark_line: str | None = None
        self.seconds_to_end = 0.0
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            [clone / "run", "--port", str(self.port), "--data", clone / "fairway-data"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            process_group=0,  # Ctrl-C of a person reaches it from here, once
        )
        self.reader = threading.Thread(target=self.read_output, daemon=True)
        self.reader.start()

    def read_output(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            print(f"    {line.rstrip()}", flush=True)
            if "Spark pipeline" in line or "Spark could not" in line:
                self.spark_line = line.strip()

    def accepts_the_first_message(self) -> bool:
        strict = 'curl() { command curl --fail --silent --max-time 10 "$@"; }\n'
        command = ["bash", "-c", strict + self.message]
        quiet = subprocess.DEVNULL
        return subprocess.run(command, stdout=quiet, stderr=quiet, check=False).returncode == 0

    def has_said_how_spark_is(self) -> bool:
        return self.spark_line is not None

    def seconds_until(self, has_come: Callable[[], bool]) -> float | None:
        while time.monotonic() - self.started < GIVE_UP_AFTER_SECONDS:
            if has_come():
                return time.monotonic() - self.started
            if self.process.poll() is not None:
                raise SystemExit(f"./run ended by itself with exit code {self.process.returncode}")
            time.sleep(0.05)
        return None

    def stop(self) -> None:
        """As Ctrl-C does; what does not end then is a bug to be looked at, so its id is told."""
        asked = time.monotonic()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(TIME_TO_END_SECONDS)
            except subprocess.TimeoutExpired:
                raise SystemExit(f"./run (pid {self.process.pid}) does not end on Ctrl-C") from None
        self.seconds_to_end = time.monotonic() - asked
        self.reader.join(5)


@contextlib.contextmanager
def running(clone: pathlib.Path, caches: dict[str, str]) -> Iterator[Run]:
    run = Run(clone, {**os.environ, **caches})
    try:
        yield run
    finally:
        run.stop()


def first_curl_line(readme: pathlib.Path) -> str:
    """The README's first curl command, with the lines that it goes on for."""
    found = re.search(r"^(?:\$ )?(curl (?:.*\\\n)*.*)$", readme.read_text(), re.MULTILINE)
    if not found:
        raise SystemExit("README.md shows no curl line")
    return found[1]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


# --- the installed package


def measure_package(bench: Bench) -> None:
    venv = bench.venv_with_package()
    with_bytecode, without = size_in_mb(venv)
    detail = f"without bytecode {without:.1f} MB"
    bench.report(Figure("installed, all dependencies", with_bytecode, "MB", INSTALLED_MB, detail))
    seconds = seconds_of_the_readme_block(bench, venv)
    bench.report(Figure("the README's Python block in an empty venv", seconds, "s"))


def size_in_mb(venv: pathlib.Path) -> tuple[float, float]:
    """(with, without) the bytecode, in 10^6 bytes, of what lies in site-packages."""
    (packages,) = venv.glob("lib/python*/site-packages")
    files = [file for file in packages.rglob("*") if file.is_file()]
    total = sum(file.stat().st_size for file in files)
    bytecode = sum(file.stat().st_size for file in files if file.suffix == ".pyc")
    return total / 1e6, (total - bytecode) / 1e6


def seconds_of_the_readme_block(bench: Bench, venv: pathlib.Path) -> float:
    readme = bench.clone("to-build") / "README.md"
    block = re.search(r"^```python\n(.*?)^```", readme.read_text(), re.MULTILINE | re.DOTALL)
    if not block:
        raise SystemExit("README.md shows no Python block")
    folder = bench.scratch / "readme-python"
    folder.mkdir()
    (folder / "shown.py").write_text(block[1])
    started = time.monotonic()
    call([venv / "bin" / "python", "shown.py"], cwd=folder)
    return time.monotonic() - started


# --- the import


PROGRAMS = {
    "import fairway": "import fairway",
    "control": "import msgspec, asyncio",
    # What the import puts off has to be paid by the first connection.
    "connect": "import fairway; fairway.connect('memory://').close()",
}


def measure_import(bench: Bench) -> None:
    python = bench.venv_with_package() / "bin" / "python"
    rounds = [median_of_each_program(python) for _ in range(1 + ROUNDS)][1:]  # the first warms up
    control = [medians["control"] for medians in rounds]
    for name, target in [("import fairway", TIMES_THE_CONTROL), ("connect", None)]:
        ratios = [medians[name] / medians["control"] for medians in rounds]
        detail = f"{ROUNDS} rounds of {RUNS_IN_A_ROUND}: {min(ratios):.2f} to {max(ratios):.2f}"
        ratio = statistics.median(ratios)
        bench.report(Figure(f"CPU of {name} / control", ratio, "×", target, detail))
    milliseconds = statistics.median(control) * 1000
    bench.report(Figure(f"CPU of the control: {PROGRAMS['control']}", milliseconds, "ms"))
    spread = (max(control) - min(control)) / statistics.median(control) * 100
    name = "range of the control (more: nothing is proved)"
    bench.report(Figure(name, spread, "%", CONTROL_MAY_VARY * 100))


def median_of_each_program(python: pathlib.Path) -> dict[str, float]:
    """One round: the programs take turns, so that a busy moment meets them all."""
    seconds: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    for _ in range(RUNS_IN_A_ROUND):
        for name, program in PROGRAMS.items():
            seconds[name].append(cpu_seconds(python, program))
    return {name: statistics.median(values) for name, values in seconds.items()}


def cpu_seconds(python: pathlib.Path, program: str) -> float:
    """User and system time of one Python that runs this program, isolated from the folder."""
    process = subprocess.Popen([python, "-I", "-c", program])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"python -c {program!r} failed")
    return usage.ru_utime + usage.ru_stime


# --- what is shared


def call(command: list[Any], cwd: pathlib.Path = CHECKOUT) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed\n{done.stdout}{done.stderr}")
    return done.stdout


def circumstances() -> dict[str, Any]:
    commit = call(["git", "rev-parse", "HEAD"]).strip()
    return {
        "at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "commit": commit,
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "load": os.getloadavg(),
    }


MEASUREMENTS = {"start": measure_start, "package": measure_package, "import": measure_import}


def main() -> int:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MEASUREMENTS))
    options.add_argument("--out", type=pathlib.Path, help="write the figures there, as JSON")
    uncommitted = "take the files as they lie here, not as committed; no result for the documents"
    options.add_argument("--uncommitted", action="store_true", help=uncommitted)
    arguments = options.parse_args()
    unknown = set(arguments.names) - set(MEASUREMENTS)
    if unknown:
        options.error(f"{', '.join(unknown)}: choose from {', '.join(MEASUREMENTS)}")
    around = {**circumstances(), "uncommitted": arguments.uncommitted}
    with tempfile.TemporaryDirectory(prefix="fairway-first-day-") as folder:
        bench = Bench(pathlib.Path(folder), arguments.uncommitted)
        for name in arguments.names or MEASUREMENTS:
            MEASUREMENTS[name](bench)
    if arguments.out:
        write(arguments.out, around, bench.figures)
    return 0 if all(figure.is_met for figure in bench.figures) else 1


def write(out: pathlib.Path, around: dict[str, Any], figures: list[Figure]) -> None:
    rows = [{**figure._asdict(), "met": figure.is_met} for figure in figures]
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({**around, "figures": rows}, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    sys.exit(main())
