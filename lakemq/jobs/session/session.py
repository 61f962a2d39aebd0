"""The SparkSession of the jobs and of `lakemq sql`: a local Spark with Delta that idles cheaply."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from lakemq.jobs.errors import SparkNotStarted
from lakemq.jobs.session import call_sites, class_archive, cluster, connect, guard, jars, object_storage_jars, remote
from lakemq.jobs.session.heaps import few_heaps
from lakemq.jobs.session.interrupts import interrupts_kept
from lakemq.jobs.session.java import QUICK, check_java
from lakemq.jobs.session.left_java import no_java_left
from lakemq.jobs.session.object_storage import give_keys, object_conf
from lakemq.jobs.source.data_source import LakemqDataSource
from lakemq.objects.path import is_object
from lakemq.settings import Settings, Spark
from lakemq.storage.lake.table_file import GROUP_BYTES, GROUP_ROWS

_STREAMING = "org.apache.spark.sql.execution.streaming"

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_LOG_CONF = Path(__file__).with_name("log4j2.properties").absolute()
JSON_LOG_CONF = _LOG_CONF.with_name("log4j2_json.properties")
_POOLS = Path(__file__).with_name("fairscheduler.xml").absolute()
_CUBE_BYTES = str(1024**3)
_FILE_BYTES = str(256 * 1024**2)

SOCKET_S_MAX = 120

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
    # A client chooses names of columns: none of them may stand for a variable of the environment, or of the conf.
    "spark.sql.variable.substitute": "false",
    # Two cores: a shuffle of more tasks than that is paid for in every small batch.
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
    # What it compiled for an expression Spark keeps for the next batch, but by default a hundred of these: the queries
    # of all the tables and their maintenance are more, and compiled the same anew, batch by batch.
    "spark.sql.codegen.cache.maxEntries": "1000",
    # VACUUM lists a table's folders in so many tasks: by default 10,000, which took minutes a table.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
    # A body is hardly ever there twice: building a dictionary of bodies is work for nothing.
    "spark.hadoop.parquet.enable.dictionary#body": "false",
    # The gateway reads what has left the log by row groups, and one after the other: they are small, those
    # of the narrow tables too, and neighbours in time stay neighbours when a file is made of others.
    "spark.hadoop.parquet.block.size": str(GROUP_BYTES),
    "spark.hadoop.parquet.block.row.count.limit": str(GROUP_ROWS),
    "spark.databricks.io.skipping.mdc.sortWithinFiles": "true",
    # As numbers: in Spark's own older form they have no statistics, by which to pass over row groups.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Hadoop's own local file system forks a `chmod` for each file that it makes.
    "spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
    # Delta's own class forks ten for each commit.
    "spark.delta.logStore.file.impl": jars.LOG_STORE,
    "spark.sql.streaming.checkpointFileManagerClass": (
        f"{_STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.stateStore.providerClass": (f"{_STREAMING}.state.RocksDBStateStoreProvider"),
    "spark.sql.streaming.numRecentProgressUpdates": "10",
    # By default for ever: a query that doesn't stop would hold up all that comes after it.
    "spark.sql.streaming.stopTimeout": "120s",
    "spark.cleaner.periodicGC.interval": "24h",
    # Spark searches long texts by regular expressions that go deep: as a query stops, it has
    # overflowed a thread's stack of the usual megabyte.
    _JAVA_OPTIONS: f"-Xss4m -Dlog4j2.configurationFile={_LOG_CONF.as_uri()}",
    # By default 15 s: so long JVM and Python wait for each other when a worker begins or a result is fetched, and on a
    # machine that is busy enough a query died of it (CANNOT_OPEN_SOCKET).
    "spark.python.authenticate.socketTimeout": f"{SOCKET_S_MAX}s",
    # Maintenance must not keep the query that appends from the cores, nor that one the routing.
    "spark.scheduler.mode": "FAIR",
    "spark.scheduler.allocation.file": _POOLS.as_uri(),
    "spark.databricks.delta.optimize.maxThreads": "1",
    "spark.databricks.delta.optimize.maxFileSize": _FILE_BYTES,
    # Files in a cluster of that size are not touched again: a pass rewrites a bounded amount.
    "spark.databricks.delta.optimize.clustering.mergeStrategy.minCubeSize.threshold": _CUBE_BYTES,
    "spark.databricks.delta.optimize.clustering.mergeStrategy.minCubeSize.targetCubeSize": (_CUBE_BYTES),
}

LOCAL_CONF: dict[str, str] = {
    # Driver and executor are one process: a late heartbeat says only that it was held up (a laptop asleep, a busy
    # machine, SIGSTOP). By default Spark takes its executor for dead after two minutes, drops its blocks, and
    # queries fail or hang ("Block broadcast_1 does not exist").
    "spark.storage.blockManagerHeartbeatTimeoutMs": "365d",
}

COLLECTOR = {
    # The jobs' heap lives on 0.1 GiB. G1 let it grow to four times that before it looked, and has memory of its own;
    # this gives back what a large statement has used, at once and not over several collections. By itself Java begins
    # with a 64th of the machine's memory, and uses all of that before it collects for the first time. What compilers
    # and RocksDB free, the C library keeps until it is told to give it back: Java tells it each minute, from 17.0.9 on.
    "spark.driver.defaultJavaOptions": (
        "-XX:+UseSerialGC -Xms192m -XX:NewSize=96m -XX:MinHeapFreeRatio=20 -XX:MaxHeapFreeRatio=30"
        " -XX:-ShrinkHeapInSteps -XX:+IgnoreUnrecognizedVMOptions -XX:TrimNativeHeapInterval=60000"
    ),
}


def start_session(
    settings: Settings, name: str = "lakemq", *, short_lived: bool = False, server: bool = False
) -> SparkSession:
    """A session as `settings.spark` says, with `format("lakemq")` registered.

    `server`: its JVM is a Spark Connect server too, as `settings.sql` says (`connect`).
    `short_lived`: for a few statements, so compiled once and quickly: the first answer costs half
    the CPU, long work some more. In one process there is one session: the second call gets the
    first one's. Raises `JavaNotFound`, `JarsUnavailable`, `SparkNotStarted`, `SettingsError`.
    """
    java = check_java()
    os.environ["PYSPARK_PYTHON"] = cluster.python_of_executors(settings.spark, sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if cluster.is_here(settings.spark.master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    for variable in remote.VARIABLES:
        os.environ.pop(variable, None)
    conf = {"spark.app.name": name, "spark.master": settings.spark.master}
    conf |= {"spark.driver.memory": settings.spark.driver_memory} | CONF | connect.CONF
    conf |= local_conf(settings.spark) | guard.guard_conf(settings.spark)
    if is_object(settings.lake.dir):
        conf |= object_conf(settings.lake.dir, settings.spark.conf)
    if server:
        conf |= connect.server_conf(settings.sql)
    conf = cluster.conf_for(settings.spark, conf | settings.spark.conf, _sent_jars(settings))
    if settings.log.format == "json":
        conf[_JAVA_OPTIONS] = conf[_JAVA_OPTIONS].replace(_LOG_CONF.as_uri(), JSON_LOG_CONF.as_uri())
    conf["spark.driver.extraClassPath"] = f"{jars.DELTA.folder()}/*"
    if short_lived:
        conf[_JAVA_OPTIONS] += f" {QUICK}"
    conf[_JAVA_OPTIONS] += class_archive.java_options(java)
    # PySpark logs each error of a statement too, with the JVM's stack; it is raised all the same.
    logging.getLogger("SQLQueryContextLogger").disabled = True
    with connect.token_in_environment(settings.sql if server else None):
        session = _start(conf)
    if call_sites.CALL_SITES not in settings.spark.conf:
        call_sites.note_none()
    if cluster.is_cluster(settings.spark.master):
        cluster.ship_package(session)
    if is_object(settings.lake.dir):
        give_keys(session, settings.lake.dir)
    _build_catalog(session)
    register_source(session)
    return session


def local_conf(settings: Spark) -> dict[str, str]:
    """What else a session needs whose driver does all the work. Java takes one collector: where its options are given,
    none is chosen here."""
    if cluster.is_cluster(settings.master):
        return {}
    return LOCAL_CONF if _JAVA_OPTIONS in settings.conf else LOCAL_CONF | COLLECTOR


def _start(conf: dict[str, str]) -> SparkSession:
    secret = guard.kept_back(conf)
    shown = {key: value for key, value in conf.items() if key not in secret}
    builder = SparkSession.Builder()
    for key, value in shown.items():
        builder = builder.config(key, value)
    try:
        with no_java_left(), few_heaps(), interrupts_kept():
            guard.start_java_with(shown, secret)
            session = builder.getOrCreate()
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        raise SparkNotStarted("Spark's Java ended before it was up; what it said stands above") from None
    guard.guard_callbacks()
    return session


def _build_catalog(session: SparkSession) -> None:
    """Spark makes a session's catalog when it is first used, and notes then under which name it finds
    global temporary views (`connect.LIVE`): by the conf of the active session, and this thread has one.
    """
    java_session: Any = session._jsparkSession  # pyright: ignore[reportPrivateUsage]
    java_session.sessionState().catalog()


def register_source(session: SparkSession) -> None:
    """Makes `format("lakemq")` known to that session, which must be the active one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session.dataSource.register(LakemqDataSource)


def _sent_jars(settings: Settings) -> list[Path]:
    """Those that Spark brings to its executors; they are got where there are none yet."""
    found = list(jars.DELTA.installed() or jars.install(attempts_max=1))
    sent = found if cluster.is_cluster(settings.spark.master) else []
    if is_object(settings.lake.dir):  # not on the class path, which the archive of classes is bound to
        sent += object_storage_jars.S3A.installed() or object_storage_jars.install(attempts_max=1)
    return sent
