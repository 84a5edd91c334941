"""`fairway pipeline run` as a person and a supervisor meet it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from fairway.cli.pipeline import line, pipeline
from fairway.spark.jobs import Report
from fairway.spark.tables import Lake


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(pipeline, ["run", *words])
    return result.exit_code, result.output


@pytest.mark.parametrize("words", [(), ("--once", "--every", "1m"), ("--every", "soon")])
def test_when_to_pass_must_be_said_once(words: tuple[str, ...]):
    code, output = run(*words)
    assert code == 2
    assert "span" in output


def test_a_lake_in_use_is_refused_before_spark_starts(tmp_path: Path):
    with Lake(tmp_path):
        code, output = run("--once", "--lake", str(tmp_path))
    assert code == 1
    assert "Error: FAIRWAY_LAKE_BUSY" in output


def test_a_store_inside_another_process_is_refused_before_spark_starts(tmp_path: Path):
    code, output = run("--once", "--lake", str(tmp_path), "--url", "memory://")
    assert code == 1
    assert "Error: FAIRWAY_BAD_URL: memory:// lives inside one process" in output


def test_without_the_extra_it_is_said_what_to_install():
    hidden = (
        "import sys; sys.modules['pyspark'] = None; sys.argv[1:] = ['pipeline', 'run', '--once']"
    )
    code = f"{hidden}; from fairway.cli.main import main; main()"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 2
    assert 'pyspark is not installed: pip install "fairway[spark]"' in result.stderr


def test_the_command_can_be_listed_without_spark():
    code = "import sys; import fairway.cli.pipeline; print('pyspark' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout == "False\n"


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (
            Report(30, 4, {"I": 12, "X": 100, "E": 8}, {0: 812}),
            "deliveries 120: X 100, I 12, E 8 (new 30, open 4, through position 812)",
        ),
        (
            Report(0, 0, {}, {0: 7, 1: 9}),
            "deliveries 0 (new 0, open 0, through position 0:7, position 1:9)",
        ),
    ],
)
def test_a_pass_is_one_line(report: Report, said: str):
    assert line(report) == said


@pytest.mark.skipif(sys.platform != "linux", reason="counts processes by /proc")
def test_a_missing_server_is_waited_for_and_a_signal_ends_it_with_its_java(tmp_path: Path):
    words = ["pipeline", "run", "--every", "1h", "--url", "http://127.0.0.1:9"]
    command = "from fairway.cli.main import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", command, *words, "--lake", str(tmp_path)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            assert process.stderr is not None
            told = (said for said in process.stderr if said.startswith("FAIRWAY_"))
            assert next(told).startswith("FAIRWAY_UNREACHABLE: http://127.0.0.1:9")
            below = children(process.pid)
            assert below
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=20) == 0
            assert process.stderr.read() == ""
        finally:
            process.kill()
    assert not [pid for pid in below if Path(f"/proc/{pid}").exists()]


def children(pid: int) -> list[str]:
    """What its threads have started and still runs."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [child for task in tasks for child in (task / "children").read_text().split()]
