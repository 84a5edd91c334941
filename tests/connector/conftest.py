"""The shared Spark session, for the tests here that need one."""

from tests.spark_session import spark

__all__ = ["spark"]
