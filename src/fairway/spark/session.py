"""A Spark session with the settings that Fairway's tables need; `local[*]` from a pip install."""

from __future__ import annotations

import logging
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from pyspark import SparkContext
from pyspark.sql import SparkSession

from fairway.spark import java

LOCAL: Final = "local[*]"

_log = logging.getLogger(__name__)

_QUIET: Final = (
    f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
)

_ALWAYS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # delta-rs refuses INT96
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

_LOCALLY: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # No twin .crc files, for each of which Hadoop forks a chmod. The other key, fs.file.impl, must
    # stay: RocksDB state breaks without it.
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
}


def start(app: str = "fairway", master: str = LOCAL, java_options: str = "") -> SparkSession:
    """The session of this process; it is made if there is none."""
    if running := SparkSession.getActiveSession():
        return running
    conf = {
        **_ALWAYS,
        "spark.sql.warehouse.dir": f"file:{tempfile.gettempdir()}/fairway-warehouse-{os.getpid()}",
        "spark.driver.extraJavaOptions": f"{_QUIET} {java_options}".strip(),
    }
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if cores := _local_cores(master):
        conf |= _LOCALLY | {"spark.sql.shuffle.partitions": str(cores)}
        os.environ["PYSPARK_PYTHON"] = sys.executable  # else the `python3` that is on the path
    chosen = java.find()
    _log.info("%s", chosen.why)
    if chosen.home:
        os.environ["JAVA_HOME"] = str(chosen.home)
    builder = SparkSession.builder.appName(app).master(master)
    for key, value in conf.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def stop(patience: float = 20.0) -> None:
    """Ends the JVM, which pyspark alone would leave until this process ends, and with it whatever
    runs in it. Any thread may call it, at any time; no session starts in this process again."""
    # pyspark has no public way to the process.
    gateway = SparkContext._gateway  # pyright: ignore[reportPrivateUsage]
    process = getattr(gateway, "proc", None)
    if process is None:
        return
    # Calls that are under way will fail, and py4j says so on its loggers and on the root one.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_not_of_py4j)
    process.stdin.close()  # the JVM ends when this pipe does, and tidies up
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in pathlib.Path(record.pathname).parts


def _local_cores(master: str) -> int:
    """How many threads a local master has; 0 for a cluster."""
    found = re.fullmatch(r"local(?:\[(\*|\d+)(?:,\s*\d+)?\])?", master)
    if not found:
        return 0
    return (os.cpu_count() or 1) if found[1] == "*" else int(found[1] or 1)
