"""What the documents show works as shown: their Python, their curl lines, their links.

Every block of ```python is run by itself in an empty folder; one that cannot be is marked
```python not-run. Every block of ```sh or ```console with curl in it is run against a server
of its own.
"""

from __future__ import annotations

import os
import pathlib
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest

CHECKOUT = pathlib.Path(__file__).resolve().parent.parent
README = CHECKOUT / "README.md"
PAGES = [README, *sorted((CHECKOUT / "docs").rglob("*.md"))]
PORT_IN_THE_DOCUMENTS = "7070"
SECONDS_FOR_A_BLOCK = 60

FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)[^)]*\)")
# A status that is an error ends the block, so a line that is refused fails the test.
STRICT_SHELL = """
set -euo pipefail
curl() { command curl --fail-with-body --silent --show-error --max-time 30 "$@"; }
"""


class Block(NamedTuple):
    page: pathlib.Path
    line: int
    language: str
    mark: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(CHECKOUT)}:{self.line}"


def blocks() -> Iterator[Block]:
    for page in PAGES:
        if page.exists():
            text = page.read_text()
            for found in FENCE.finditer(text):
                line = text.count("\n", 0, found.start()) + 1
                yield Block(page, line, found[1], found[2].strip(), found[3])


PYTHON = [b for b in blocks() if b.language == "python" and b.mark != "not-run"]
SHELL = [b for b in blocks() if b.language in {"sh", "console"} and "curl " in b.text]


def test_the_readme_shows_python_and_curl() -> None:
    assert any(block.page == README for block in PYTHON)
    assert any(block.page == README for block in SHELL)


@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_python_runs(block: Block, tmp_path: pathlib.Path) -> None:
    script = tmp_path / "shown.py"
    script.write_text(block.text)
    done = subprocess.run(
        [sys.executable, "-W", "error", script],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS_FOR_A_BLOCK,
        check=False,
    )
    assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("block", SHELL, ids=str)
def test_curl_is_answered(block: Block, tmp_path: pathlib.Path, server_port: int) -> None:
    script = STRICT_SHELL + commands(block).replace(PORT_IN_THE_DOCUMENTS, str(server_port))
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS_FOR_A_BLOCK,
        check=False,
    )
    assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"


def commands(block: Block) -> str:
    """What a reader would type: in a console, what stands behind a `$`, and where that goes on."""
    if block.language == "sh":
        return block.text
    return "\n".join(re.findall(r"^\$ ((?:.*\\\n)*.*)$", block.text, re.MULTILINE))


@pytest.fixture
def server_port(tmp_path: pathlib.Path) -> Iterator[int]:
    """A fresh server on a free port of this machine."""
    port = free_port()
    fairway = pathlib.Path(sys.executable).with_name("fairway")
    command = [fairway, "serve", "--port", str(port), "--data", tmp_path / "data"]
    with (tmp_path / "server.log").open("w") as log:
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        wait_until_it_listens(server, port, tmp_path / "server.log")
        yield port
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
            raise


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_it_listens(server: subprocess.Popen[bytes], port: int, log: pathlib.Path) -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        assert server.poll() is None, log.read_text()
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    pytest.fail(f"the server does not listen\n{log.read_text()}")


@pytest.mark.parametrize("page", [p for p in PAGES if p.exists()], ids=str)
def test_links_lead_to_files_of_the_repository(page: pathlib.Path) -> None:
    links = [link for link in LINK.findall(page.read_text()) if "://" not in link]
    assert not [link for link in links if not (page.parent / link).exists()]


@pytest.mark.parametrize("name", ["run", "test"])
def test_the_two_commands_can_be_started(name: str) -> None:
    assert f"./{name}" in README.read_text()
    assert os.access(CHECKOUT / name, os.X_OK)
