"""`spark.readStream.format("lakemq")`: the log as Spark reads it."""

from lakemq.jobs.source.data_source import LakemqDataSource

__all__ = ["LakemqDataSource"]
