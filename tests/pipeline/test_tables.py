"""Tables: a batch is in once, whole or not at all, and a lake has one writer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable
from pyspark.sql.types import LongType, StringType, StructField, StructType

from fairway.spark.tables import Lake, Table
from pyspark_fairway import ConnectorError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = StructType([StructField("n", LongType()), StructField("s", StringType())])


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path / "table", SCHEMA)


def numbers(spark: SparkSession, first: int, last: int) -> DataFrame:
    return spark.range(first, last + 1).selectExpr("id as n", "'x' || id as s")


def read(spark: SparkSession, table: Table) -> list[int]:
    return sorted(row["n"] for row in table.read(spark).collect())


def test_before_its_first_commit_a_table_is_empty(spark: SparkSession, table: Table):
    assert (table.batch("app"), table.notes(), table.rows()) == (-1, {}, 0)
    assert table.read(spark).schema == SCHEMA
    assert read(spark, table) == []


def test_a_batch_is_added_once(spark: SparkSession, table: Table, tmp_path: Path):
    assert table.commit(numbers(spark, 1, 3), "app", 0, {"to": "a"}, "append") == 3
    assert table.commit(numbers(spark, 1, 3), "app", 0, {"to": "b"}, "append") == 0
    assert table.commit(numbers(spark, 4, 5), "app", 1, {"to": "c"}, "append") == 2
    assert read(spark, table) == [1, 2, 3, 4, 5]
    assert (table.batch("app"), table.batch("other"), table.rows()) == (1, -1, 5)
    assert table.notes() == {"to": "c"}
    assert DeltaTable(tmp_path / "table").to_pyarrow_table().num_rows == 5


def test_a_snapshot_replaces_the_one_before_also_by_nothing(spark: SparkSession, table: Table):
    table.commit(numbers(spark, 1, 3), "app", 0, {}, "overwrite")
    table.commit(numbers(spark, 7, 8), "app", 1, {}, "overwrite")
    assert read(spark, table) == [7, 8]
    table.commit(numbers(spark, 1, 0), "app", 2, {"to": "end"}, "overwrite")
    assert read(spark, table) == []
    assert (table.batch("app"), table.notes()) == (2, {"to": "end"})


def test_what_a_crash_left_is_no_part_of_the_table(
    spark: SparkSession, table: Table, tmp_path: Path
):
    table.commit(numbers(spark, 1, 1), "app", 0, {}, "append")
    left = tmp_path / "table" / "data" / "app-1"
    numbers(spark, 90, 99).write.parquet(str(left))
    leftovers = set(left.glob("*.parquet"))
    assert read(spark, table) == [1]
    table.commit(numbers(spark, 2, 2), "app", 1, {}, "append")
    assert read(spark, table) == [1, 2]
    assert leftovers.isdisjoint(left.iterdir())


def test_notes_are_found_behind_maintenance_which_removes_old_snapshots(
    spark: SparkSession, table: Table, tmp_path: Path
):
    table.commit(numbers(spark, 1, 1), "app", 0, {}, "overwrite")
    table.commit(numbers(spark, 2, 2), "app", 1, {"to": "b"}, "overwrite")
    delta = DeltaTable(tmp_path / "table")
    removed = delta.vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert [name.partition("/part-")[0] for name in removed] == ["data/app-0"]
    assert table.notes() == {"to": "b"}
    assert read(spark, table) == [2]


def test_a_lake_has_one_writer(tmp_path: Path):
    with Lake(tmp_path / "lake"):
        with pytest.raises(ConnectorError, match="FAIRWAY_LAKE_BUSY: another pipeline"):
            Lake(tmp_path / "lake").__enter__()
        other = "import sys; from fairway.spark.tables import Lake; Lake(sys.argv[1]).__enter__()"
        run = subprocess.run(
            [sys.executable, "-c", other, tmp_path / "lake"], capture_output=True, text=True
        )
        assert run.returncode == 1
        assert "FAIRWAY_LAKE_BUSY" in run.stderr
    with Lake(tmp_path / "lake"):
        pass


def test_a_lake_that_cannot_be_written_is_said_so(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConnectorError, match=r"FAIRWAY_BAD_LAKE: .* cannot be written"):
        Lake(tmp_path / "file" / "lake").__enter__()
