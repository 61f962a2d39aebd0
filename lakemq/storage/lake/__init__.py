"""Reading the lake's Delta tables without Spark: what has left the log is still there."""
