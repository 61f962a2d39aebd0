from __future__ import annotations

import os

from pyspark.sql import SparkSession

from lakemq.jobs.session.session import COLLECTOR, LOCAL_CONF, SOCKET_S_MAX, local_conf
from lakemq.settings import Spark


def test_a_session_has_the_name_that_it_was_given(spark: SparkSession) -> None:
    assert spark.sparkContext.appName == "lakemq tests"


def test_a_busy_machine_has_two_minutes_to_bring_python_and_the_jvm_together(spark: SparkSession) -> None:
    assert os.environ["SPARK_AUTH_SOCKET_TIMEOUT"] == str(SOCKET_S_MAX)  # as PySpark was told by the JVM
    assert spark.range(1).rdd.map(lambda row: os.environ["SPARK_AUTH_SOCKET_TIMEOUT"]).collect() == [str(SOCKET_S_MAX)]


def test_a_local_session_that_was_held_up_does_not_take_itself_for_dead(spark: SparkSession) -> None:
    """Stopped for longer than this, with two minutes for it: queries failed with "Block broadcast_1 does not exist"."""
    days = spark.conf.get("spark.storage.blockManagerHeartbeatTimeoutMs")
    assert days == "365d"


def test_who_gives_javas_options_has_javas_choice_of_a_collector() -> None:
    """Java doesn't start with two."""
    given = Spark(conf={"spark.driver.extraJavaOptions": "-XX:+UseG1GC"})
    assert local_conf(Spark()) == LOCAL_CONF | COLLECTOR
    assert local_conf(given) == LOCAL_CONF
    assert local_conf(Spark(master="spark://there:7077")) == {}
