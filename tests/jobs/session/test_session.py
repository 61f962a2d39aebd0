from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import time
from typing import Any

import pytest
from py4j.java_gateway import GatewayClient
from py4j.protocol import MEMORY_COMMAND_NAME as GARBAGE_COLLECTED
from pyspark.sql import SparkSession, functions

from lakemq.jobs.session.call_sites import CALL_SITES
from lakemq.jobs.session.heaps import HEAPS_MAX, VARIABLE, few_heaps
from lakemq.jobs.session.java import check_java
from lakemq.jobs.session.session import COLLECTOR, LOCAL_CONF, SOCKET_S_MAX, local_conf
from lakemq.settings import Spark

WAIT_S_MAX = 120.0


def test_a_session_has_the_name_that_it_was_given(spark: SparkSession) -> None:
    assert spark.sparkContext.appName == "lakemq tests"


def test_a_busy_machine_has_two_minutes_to_bring_python_and_the_jvm_together(spark: SparkSession) -> None:
    assert os.environ["SPARK_AUTH_SOCKET_TIMEOUT"] == str(SOCKET_S_MAX)  # as PySpark was told by the JVM
    assert spark.range(1).rdd.map(lambda row: os.environ["SPARK_AUTH_SOCKET_TIMEOUT"]).collect() == [str(SOCKET_S_MAX)]


def test_a_local_session_that_was_held_up_does_not_take_itself_for_dead(spark: SparkSession) -> None:
    """Stopped for longer than this, with two minutes for it: queries failed with "Block broadcast_1 does not exist"."""
    days = spark.conf.get("spark.storage.blockManagerHeartbeatTimeoutMs")
    assert days == "365d"


def test_java_and_its_workers_have_few_heaps_and_this_process_is_left_alone(spark: SparkSession) -> None:
    jvm: Any = spark.sparkContext._jvm  # pyright: ignore[reportPrivateUsage]
    asked = lambda _: os.environ.get(VARIABLE)  # noqa: E731  a worker can't import this file
    of_workers = spark.range(1).rdd.map(asked).collect()
    assert [jvm.System.getenv(VARIABLE), *of_workers] == [str(HEAPS_MAX)] * 2
    assert VARIABLE not in os.environ


def test_an_environment_that_says_how_many_heaps_is_heeded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "4194304")
    with few_heaps():
        assert VARIABLE not in os.environ


def test_a_column_asks_java_for_no_more_than_itself_and_connect_clients_errors_name_their_lines(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    real = GatewayClient.send_command

    def counted(client: GatewayClient, command: str, *given: Any, **options: Any) -> Any:
        if not command.startswith(GARBAGE_COLLECTED):
            asked.append(command)
        return real(client, command, *given, **options)

    monkeypatch.setattr(GatewayClient, "send_command", counted)
    column = functions.col("id")
    asked.clear()
    _ = column + 1
    assert len(asked) == 1, asked
    assert spark.conf.get(CALL_SITES, "true") == "true"


def test_sparks_own_ports_ask_for_a_secret(spark: SparkSession) -> None:
    assert spark.sparkContext.getConf().get("spark.authenticate") == "true"


def test_what_java_calls_in_this_process_nobody_else_does(spark: SparkSession) -> None:
    """Regression: whoever connected to PySpark's port called any method of what the queries are called by."""
    gateway: Any = spark.sparkContext._gateway  # pyright: ignore[reportPrivateUsage]
    with socket.create_connection(("127.0.0.1", gateway._callback_server.port), WAIT_S_MAX) as stranger:
        stranger.sendall(b"c\np0\ncall\ne\n")
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            answer = stranger.recv(1000)
    assert answer == b""
    called: list[int] = []
    rows = spark.readStream.format("rate").option("rowsPerSecond", 100).load()
    query = rows.writeStream.foreachBatch(lambda frame, number: called.append(number)).start()
    try:
        end_s = time.monotonic() + WAIT_S_MAX
        while not called and query.isActive and time.monotonic() < end_s:
            time.sleep(0.05)
        assert called
    finally:
        query.stop()


def test_who_gives_javas_options_has_javas_choice_of_a_collector() -> None:
    """Java doesn't start with two."""
    given = Spark(conf={"spark.driver.extraJavaOptions": "-XX:+UseG1GC"})
    assert local_conf(Spark()) == LOCAL_CONF | COLLECTOR
    assert local_conf(given) == LOCAL_CONF
    assert local_conf(Spark(master="spark://there:7077")) == {}


def test_javas_heap_begins_small_on_a_machine_with_much_memory_too() -> None:
    """By itself Java begins with a 64th of it; 450 MiB is the least that Spark starts with."""
    options = COLLECTOR["spark.driver.defaultJavaOptions"].split()
    for most in ("-Xmx450m", "-Xmx2g"):
        command = [check_java(), *options, most, "-XX:MaxRAM=512g", "-XX:+PrintFlagsFinal", "-version"]
        said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
        flags = dict(re.findall(r"^\s*\S+\s+(\w+)\s+= (\S+)", said, re.MULTILINE))
        assert int(flags["InitialHeapSize"]) == 192 * 2**20
        assert flags["UseSerialGC"] == "true"
