"""Fairway's event log as a Spark data source: `spark.read.format("fairway")`.

Reading order: options, offsets (which positions), client (who speaks with Fairway), schema, source.
"""

from pyspark_fairway.errors import ConnectorError
from pyspark_fairway.source import DefaultSource

__all__ = ["ConnectorError", "DefaultSource"]
