"""Delta tables without a jar: Spark writes the Parquet files, delta-rs commits them at once.

A commit carries (app, batch): the same batch a second time does nothing. What a crash leaves before
its commit is overwritten by the next try. The files lie under `data/`, not `_data/`: a vacuum of
delta-rs passes over folders that begin with `_` or `.`, whatever lies there.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, Self

import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.transaction import AddAction, create_table_with_add_actions
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from pyspark_fairway.errors import ConnectorError

NOTES: Final = "fairway"  # the key of our metadata in a commit
Mode = Literal["append", "overwrite"]


class Table:
    """One Delta table in a folder of its own; it exists from its first commit on."""

    def __init__(self, path: Path, schema: StructType) -> None:
        self._path = path
        self._schema = schema

    def batch(self, app: str) -> int:
        """The last batch of this app that was committed; -1 before the first."""
        table = self._table()
        version = None if table is None else table.transaction_version(app)
        return -1 if version is None else version

    def notes(self) -> Mapping[str, str]:
        """What the last commit of a batch said; a maintenance commit in between says nothing."""
        table = self._table()
        for commit in table.history() if table else ():
            if NOTES in commit:
                return json.loads(commit[NOTES])
        return {}

    def rows(self) -> int:
        table = self._table()
        return 0 if table is None else table.count()

    def read(self, spark: SparkSession) -> DataFrame:
        table = self._table()
        if table is not None and (files := table.file_uris()):
            return spark.read.schema(self._schema).parquet(*files)
        nothing = (F.lit(None).cast(f.dataType).alias(f.name) for f in self._schema.fields)
        return spark.range(0).select(*nothing)

    def commit(
        self, frame: DataFrame, app: str, batch: int, notes: Mapping[str, str], mode: Mode
    ) -> int:
        """How many rows it added; nothing happens if this batch was committed before."""
        if self.batch(app) >= batch:
            return 0
        folder = self._path / "data" / f"{app}-{batch}"
        writer = frame.select(*self._schema.names).write.mode("overwrite")
        writer.option("compression", "zstd").parquet(str(folder))
        counted = [(file, _rows(file)) for file in sorted(folder.glob("*.parquet"))]
        actions = [self._action(file, rows) for file, rows in counted if rows]
        properties = CommitProperties(
            custom_metadata={NOTES: json.dumps(notes)}, app_transactions=[Transaction(app, batch)]
        )
        schema = Schema.from_json(self._schema.json())  # Spark's form of a schema is Delta's
        table = self._table()
        if table is None:
            create_table_with_add_actions(
                str(self._path), schema, actions, commit_properties=properties
            )
        else:
            table.create_write_transaction([*actions], mode, schema, commit_properties=properties)
        return sum(rows for _, rows in counted)

    def _table(self) -> DeltaTable | None:
        return DeltaTable(self._path) if (self._path / "_delta_log").is_dir() else None

    def _action(self, file: Path, rows: int) -> AddAction:
        facts = file.stat()
        return AddAction(
            path=file.relative_to(self._path).as_posix(),
            size=facts.st_size,
            partition_values={},
            modification_time=facts.st_mtime_ns // 1_000_000,
            data_change=True,
            stats=json.dumps({"numRecords": rows}),
        )


class Lake:
    """A folder of tables with one writer at a time, which the operating system enforces."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()
        self._lock: int | None = None

    def table(self, name: str, schema: StructType) -> Table:
        return Table(self.path / name, schema)

    def __enter__(self) -> Self:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.path / ".writer", os.O_RDWR | os.O_CREAT, 0o644)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.__exit__()
            raise ConnectorError(
                "LAKE_BUSY", f"another pipeline writes to {self.path}", "end it, or name a new lake"
            ) from None
        except OSError as error:
            self.__exit__()
            raise ConnectorError(
                "BAD_LAKE", f"{self.path} cannot be written ({error})", "name another folder"
            ) from error
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _rows(file: Path) -> int:
    return pq.read_metadata(file).num_rows
