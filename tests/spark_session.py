"""One Spark for all tests: started at its first use, from a cache of loaded classes if there is one.

The cache halves the start. It is written when the first run ends (8 s, 160 MB in .cache/), so not
where every checkout is new.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CACHE = Path(__file__).parents[1] / ".cache"
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable -Xlog:all=off:stderr"


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from fairway.spark import session

    archive, fresh = _archive()
    yield _started()
    session.stop(patience=60)
    if fresh.exists():
        fresh.replace(archive)


@cache
def _started() -> SparkSession:
    from fairway.spark import session

    archive, fresh = _archive()
    options = QUICK
    if archive.exists():
        options += f' "-XX:SharedArchiveFile={archive}"'
    elif "CI" not in os.environ:
        CACHE.mkdir(exist_ok=True)
        options += f' "-XX:ArchiveClassesAtExit={fresh}"'
    return session.start("tests", master="local[2]", java_options=options)


@cache
def _archive() -> tuple[Path, Path]:
    """Where the cache of this Java with these jars is, and where it is being written."""
    import pyspark

    from fairway.spark import java

    home = java.find().home
    found = Path(home, "bin", "java") if home else "java"
    version = subprocess.run([found, "-version"], capture_output=True, check=True).stderr
    facts = version + f"{pyspark.__file__} {pyspark.__version__}".encode()
    name = f"spark-{hashlib.sha256(facts).hexdigest()[:12]}"
    return CACHE / f"{name}.jsa", CACHE / f"{name}-{os.getpid()}.jsa"
