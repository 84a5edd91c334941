"""kill -9 of the server during sends, with requests in flight: every answered send is there.

A kill lies inside a commit when the server held the writers' lock at that moment: it is stopped
first, then asked, then killed.
"""

from __future__ import annotations

import fcntl
import http.client
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import fairway
from fairway.core.events import ENDINGS
from tests.running import Server

CYCLES = 20
SENDERS = 8


class Sender(threading.Thread):
    """Sends one message after the other until the server is gone."""

    def __init__(self, url: str, name: str) -> None:
        super().__init__(daemon=True)
        self._address = urlsplit(url).netloc
        self._prefix = name
        self.tried: set[str] = set()
        self.answered: set[str] = set()

    def run(self) -> None:
        connection = http.client.HTTPConnection(self._address, timeout=10)
        try:
            while True:
                id = f"{self._prefix}-{len(self.tried)}"
                self.tried.add(id)
                connection.request("PUT", f"/v1/queues/q/messages/{id}", id.encode())
                reply = connection.getresponse()
                reply.read()
                assert reply.status == 200
                self.answered.add(id)
        except (OSError, http.client.HTTPException):
            connection.close()


def kill_in_flight(server: Server, lock: Path) -> bool:
    """Whether it was inside a commit."""
    server.process.send_signal(signal.SIGSTOP)
    while (
        "T"
        not in Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()[0]
    ):
        time.sleep(0.0005)
    probe = os.open(lock, os.O_RDWR)
    try:
        fcntl.flock(probe, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(probe)
        server.kill()


def drain(url: str) -> Counter[str]:
    got: Counter[str] = Counter()
    with fairway.connect(url) as fw:
        while found := fw.receive("q", limit=1000):
            for d in found:
                assert d.text() == d.id
                got[d.id] += 1
                d.ack()
    return got


def test_every_answered_send_survives_a_kill(
    tmp_path: Path, run_seed: int, figure: Callable[[str], None]
) -> None:
    cycles = int(os.environ.get("FAIRWAY_KILLS", CYCLES))
    chance = random.Random(run_seed)
    tried: set[str] = set()
    answered: set[str] = set()
    inside = 0
    for cycle in range(cycles):
        with Server(tmp_path) as server:
            senders = [Sender(server.url, f"{cycle}-{n}") for n in range(SENDERS)]
            for sender in senders:
                sender.start()
            time.sleep(chance.uniform(0.05, 0.3))
            inside += kill_in_flight(server, tmp_path / "fairway.db.lock")
            for sender in senders:
                sender.join(20)
                assert not sender.is_alive()
                tried |= sender.tried
                answered |= sender.answered
    url = f"sqlite:///{tmp_path}/fairway.db"
    got = drain(url)
    figure(
        f"{cycles} kills, {inside} inside a commit ({inside / cycles:.0%}); {len(answered)} sends "
        f"answered, {len(tried) - len(answered)} not, {len(got.keys() - answered)} of these there"
    )
    assert not answered - got.keys(), "lost"
    assert not got.keys() - tried, "unexpected"
    assert set(got.values()) == {1}, "delivered twice without a reason"
    assert inside > 0, "no kill hit a commit: the test shows nothing"
    with fairway.connect(url) as fw:
        events = [logged.event for logged in fw.events()]
    kinds = Counter(event.kind for event in events)
    assert kinds["logged"] == kinds["queued"] == len(got)
    assert sum(kinds[kind] for kind in ENDINGS) == len(got)
