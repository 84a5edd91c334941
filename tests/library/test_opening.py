"""What can be opened, and what is said of what cannot."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import apsw
import pytest

import fairway
from fairway import aio


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("orders.db", "names no store"),
        ("sqlite://orders.db", "names no file"),
        ("sqlite:///x.db?colour=red", "unknown option colour"),
        ("postgresql://localhost/x", "not built yet"),
        ("http://127.0.0.1:1/path", "no server's address"),
    ],
)
def test_a_bad_url_is_explained(url: str, said: str) -> None:
    with pytest.raises(fairway.SettingsError, match=said):
        fairway.connect(url)


def test_a_file_that_is_not_ours_is_refused_and_left_alone(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a database, " * 100)
    with pytest.raises(fairway.StoreMismatch, match="not a Fairway store"):
        fairway.connect(f"sqlite:///{text}")
    assert text.read_text().startswith("not a database")

    other = tmp_path / "other.db"
    db = apsw.Connection(str(other))
    db.execute("create table theirs (x)")
    db.close()
    with pytest.raises(fairway.StoreMismatch, match="another program's"):
        fairway.connect(f"sqlite:///{other}")


def test_a_store_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "fairway.db"
    fairway.connect(f"sqlite:///{path}").close()
    db = apsw.Connection(str(path))
    db.execute("pragma user_version = 999")
    db.close()
    with pytest.raises(fairway.StoreMismatch, match="version 999"):
        fairway.connect(f"sqlite:///{path}")


def test_a_missing_folder_is_explained(tmp_path: Path) -> None:
    with pytest.raises(fairway.StoreUnavailable, match=r"cannot be opened"):
        fairway.connect(f"sqlite:///{tmp_path}/no/such/fairway.db")


def test_a_server_that_is_not_there_is_said_so() -> None:
    with (
        fairway.connect("http://127.0.0.1:9") as fw,
        pytest.raises(fairway.StoreUnavailable, match="no answer"),
    ):
        fw.send("q", 1)


def test_what_was_sent_is_there_after_a_reopen(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/fairway.db"
    with fairway.connect(url) as fw:
        log = fw.log().log
        fw.send("q", "x", id="one")
        [d] = fw.receive("q")
    with fairway.connect(url) as fw:
        assert fw.log().log == log
        assert fw.settle("q", "one", d.ack_id, "ack").state == "X"


def test_two_processes_share_a_file(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/fairway.db"
    code = (
        "import sys, fairway\n"
        "with fairway.connect(sys.argv[1]) as fw:\n"
        "    for i in range(50): fw.send('q', i)\n"
    )
    others = [subprocess.Popen([sys.executable, "-c", code, url]) for _ in range(2)]
    got = []
    with fairway.connect(url) as fw:
        while len(got) < 100 and (found := fw.receive("q", limit=10, wait=20)):
            got += [d.json() for d in found]
            for d in found:
                d.ack()
    assert [p.wait(20) for p in others] == [0, 0]
    assert sorted(got) == sorted([*range(50)] * 2)


async def test_the_same_verbs_for_asyncio(tmp_path: Path) -> None:
    async with await aio.connect(f"sqlite:///{tmp_path}/fairway.db") as fw:
        await fw.send("q.a", {"n": 1})
        [d] = await fw.receive("q")
        async with d:
            assert d.json() == {"n": 1}
        kinds = [e.event.kind async for e in fw.events()]
        assert kinds == ["created", "logged", "queued", "leased", "completed"]
