"""The SparkSession: its Java, its jars, its settings, its Spark Connect server and how that is found."""
