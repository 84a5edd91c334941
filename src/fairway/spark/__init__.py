"""The data pipeline on PySpark; the only part of Fairway that may import pyspark or deltalake.

Reading order: session (a Spark that starts), frames (what is computed, pure), tables (how it is
committed), jobs (one pass over the log).
"""
