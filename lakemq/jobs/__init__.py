"""Spark: the log as a data source, and the queries that read it. Only here is PySpark imported."""
