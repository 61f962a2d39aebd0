"""Spark's own errors, where the log is JSON."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import SparkSession

from lakemq.jobs.session.session import JSON_LOG_CONF


def test_an_error_of_sparks_is_a_line_of_json_with_its_stack_in_one_field(spark: SparkSession) -> None:
    jvm: Any = spark.sparkContext._jvm  # pyright: ignore[reportPrivateUsage]
    core = jvm.org.apache.logging.log4j.core
    source = core.config.ConfigurationSource.fromUri(jvm.java.net.URI(JSON_LOG_CONF.as_uri()))
    context = core.LoggerContext("lakemq tests")
    configuration = core.config.ConfigurationFactory.getInstance().getConfiguration(context, source)
    configuration.initialize()
    layout = configuration.getAppender("stderr").getLayout()
    event = core.impl.Log4jLogEvent.newBuilder().setLoggerName("org.apache.spark.Task")
    event = event.setLevel(jvm.org.apache.logging.log4j.Level.ERROR)
    event = event.setMessage(jvm.org.apache.logging.log4j.message.SimpleMessage("lost\n\u001b[2J"))
    line = str(layout.toSerializable(event.setThrown(jvm.java.lang.IllegalStateException("gone")).build()))
    assert line.endswith("\n")
    assert line[:-1].isprintable()
    content = json.loads(line)
    assert (content["level"], content["logger"]) == ("ERROR", "org.apache.spark.Task")
    assert content["timestamp"].endswith("Z")
    assert content["message"] == "lost\n\x1b[2J"
    assert content["exception"]["type"] == "java.lang.IllegalStateException"
    assert content["exception"]["stack"].startswith("java.lang.IllegalStateException: gone")
