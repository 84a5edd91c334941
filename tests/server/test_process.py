"""The server as a process: what it refuses to start with, and how it ends."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import fairway
from tests.running import Server


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--host", "0.0.0.0"], "loopback only"),
        (["--store", "redis://localhost"], "not built yet"),
        (["--store", "orders.db"], "names no store"),
        (["--port", "70000"], "65535"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_setting_is_a_start_error(tmp_path: Path, options: list[str], said: str) -> None:
    command = [sys.executable, "-m", "fairway", "serve", "--port", "0", "--data", str(tmp_path)]
    ended = subprocess.run([*command, *options], capture_output=True, text=True, timeout=30)
    assert ended.returncode == 2
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_port_that_is_taken_is_said_so(tmp_path: Path) -> None:
    with Server(tmp_path) as server:
        command = [sys.executable, "-m", "fairway", "serve", "--data", str(tmp_path)]
        port = server.url.rpartition(":")[2]
        ended = subprocess.run(
            [*command, "--port", port], capture_output=True, text=True, timeout=30
        )
    assert (ended.returncode, f"port {port}" in ended.stderr) == (2, True)


def test_it_ends_soon_and_cleanly_with_a_receive_waiting(tmp_path: Path) -> None:
    with Server(tmp_path) as server, fairway.connect(server.url) as fw:
        fw.send("q", "kept")
        [d] = fw.receive("q")
        d.nak(delay=0)
        waiting = threading.Thread(target=_wait_in_vain, args=(server.url,))
        waiting.start()
        time.sleep(0.3)
        started = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - started < 10
        waiting.join()
    with fairway.connect(f"sqlite:///{tmp_path}/fairway.db") as fw:
        assert [d.text() for d in fw.receive("q")] == ["kept"]


def _wait_in_vain(url: str) -> None:
    with fairway.connect(url) as fw, pytest.raises(fairway.FairwayError):
        fw.receive("empty", wait=20)
