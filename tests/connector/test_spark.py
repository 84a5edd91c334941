"""The connector inside a real Spark, on a real store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import fairway

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Thirty messages in an embedded store, ten of them acked."""
    file: Path = tmp_path_factory.mktemp("store") / "log.db"
    with fairway.connect(f"sqlite:///{file}") as fw:
        for number in range(30):
            fw.send("orders.created", {"n": number}, organization=f"o{number % 2}")
        for delivery in fw.receive("orders", limit=10):
            delivery.ack()
    return f"sqlite:///{file}"


def test_spark_finds_the_source_by_its_name_and_reads_every_event(spark: SparkSession, url: str):
    log = spark.read.format("fairway").option("url", url).load()
    counted = {row["kind"]: row["count"] for row in log.groupBy("kind").count().collect()}
    assert counted == {"created": 1, "logged": 30, "queued": 30, "leased": 10, "completed": 10}
    topics = {
        tuple(row["topics"]) for row in log.where("kind = 'queued'").select("topics").collect()
    }
    assert topics == {("orders.created",)}


def test_a_view_and_a_schema_of_the_user_read_through_partitions(spark: SparkSession, url: str):
    log = spark.read.format("fairway").options(url=url, maxEventsPerPartition="32")
    few = log.schema("position long, organization string").load()
    assert few.rdd.getNumPartitions() == 3
    few.createOrReplaceTempView("few")
    [row] = spark.sql("select count(*) n, max(position) most from few").collect()
    assert (row["n"], row["most"]) == (81, 81)


def test_an_error_reaches_the_user_with_its_code(spark: SparkSession, url: str):
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException, match=r"FAIRWAY_BAD_COLUMNS: .*'colour'"):
        spark.read.format("fairway").options(url=url, columns="colour").load()
