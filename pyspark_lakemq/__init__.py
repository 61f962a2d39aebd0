"""Makes `format("lakemq")` known to every Spark session, without registering it.

Spark looks through the top-level packages called `pyspark_…` for a class `DefaultSource`.
"""

from lakemq.jobs.source.data_source import LakemqDataSource as DefaultSource

__all__ = ["DefaultSource"]
