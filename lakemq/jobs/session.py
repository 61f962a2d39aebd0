"""The SparkSession of the jobs and of `lakemq sql`: a local Spark with Delta that idles cheaply."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import warnings
from pathlib import Path

from delta import configure_spark_with_delta_pip
from pyspark.sql import SparkSession

from lakemq.jobs import jars
from lakemq.jobs.source import LakemqDataSource
from lakemq.settings import Settings

_STREAMING = "org.apache.spark.sql.execution.streaming"

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_LOG_CONF = Path(__file__).with_name("log4j2.properties").absolute()
_CUBE_BYTES = str(1024**3)
_FILE_BYTES = str(256 * 1024**2)

CONF: dict[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.catalogImplementation": "in-memory",
    # Nothing is kept there, but Spark makes the folder: not in whatever the working folder is.
    "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "lakemq-warehouse"),
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Two cores: a shuffle of more tasks than that is paid for in every small batch.
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
    # A body is hardly ever there twice: building a dictionary of bodies is work for nothing.
    "spark.hadoop.parquet.enable.dictionary#body": "false",
    # Hadoop's own local file system forks a `chmod` for each file that it makes.
    "spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
    "spark.sql.streaming.checkpointFileManagerClass": (
        f"{_STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.stateStore.providerClass": (f"{_STREAMING}.state.RocksDBStateStoreProvider"),
    "spark.sql.streaming.numRecentProgressUpdates": "10",
    "spark.cleaner.periodicGC.interval": "24h",
    _JAVA_OPTIONS: f"-Dlog4j2.configurationFile={_LOG_CONF.as_uri()}",
    # OPTIMIZE must not keep the query that appends from the cores.
    "spark.scheduler.mode": "FAIR",
    "spark.databricks.delta.optimize.maxThreads": "1",
    "spark.databricks.delta.optimize.maxFileSize": _FILE_BYTES,
    # Files in a cluster of that size are not touched again: a pass rewrites a bounded amount.
    "spark.databricks.delta.optimize.clustering.mergeStrategy.minCubeSize.threshold": _CUBE_BYTES,
    "spark.databricks.delta.optimize.clustering.mergeStrategy.minCubeSize.targetCubeSize": (_CUBE_BYTES),
}


def start_session(settings: Settings, name: str = "lakemq", *, short_lived: bool = False) -> SparkSession:
    """A session as `settings.spark` says, with `format("lakemq")` registered.

    `short_lived`: for a few statements, so compiled once and quickly: the first answer costs half
    the CPU, long work some more. In one process there is one session: the second call gets the
    first one's.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", os.environ["PYSPARK_PYTHON"])
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.Builder().appName(name).master(settings.spark.master)
    builder = builder.config("spark.driver.memory", settings.spark.driver_memory)
    conf = {**CONF, **settings.spark.conf}
    if short_lived:
        conf[_JAVA_OPTIONS] += " -XX:TieredStopAtLevel=1"
    for key, value in conf.items():
        builder = builder.config(key, value)
    # PySpark logs each error of a statement too, with the JVM's stack; it is raised all the same.
    logging.getLogger("SQLQueryContextLogger").disabled = True
    session = _with_jars(builder, settings.spark.master).getOrCreate()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session.dataSource.register(LakemqDataSource)
    return session


def _with_jars(builder: SparkSession.Builder, master: str) -> SparkSession.Builder:
    """The jars of the environment on the class path, or else those that Spark resolves itself."""
    found = jars.installed()
    if not found:
        return configure_spark_with_delta_pip(builder, [jars.LOCAL_FS])
    if not master.startswith("local"):
        builder = builder.config("spark.jars", ",".join(map(str, found)))
    return builder.config("spark.driver.extraClassPath", f"{jars.folder()}/*")
