"""The shared Spark session."""

from tests.spark_session import spark

__all__ = ["spark"]
