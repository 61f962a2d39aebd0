"""Ctrl-C while Java is asked is an interrupt, and nothing else."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from py4j import clientserver
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from lakemq.jobs.session import interrupts
from lakemq.jobs.session.interrupts import interrupts_kept
from tests.client.consuming import wait_until


@pytest.fixture
def active(spark: SparkSession) -> Iterator[None]:
    """An interrupt closes this thread's connection to Java, and the next one's thread there has no active session,
    without which Spark finds no source that is written in Python."""
    yield
    java: Any = spark._jvm  # pyright: ignore[reportPrivateUsage]
    found: Any = SparkSession._get_j_spark_session_class(java)  # pyright: ignore[reportPrivateUsage]
    found.setActiveSession(spark._jsparkSession)  # pyright: ignore[reportPrivateUsage]


@pytest.fixture
def restored() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs tests in the background ignores it
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_while_java_is_asked_is_raised_as_that(
    spark: SparkSession, active: None, restored: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Py4J's error was raised in its place, where the signal came between Java's answer and its reading."""
    jvm: Any = spark.sparkContext._jvm  # pyright: ignore[reportPrivateUsage]
    decode = clientserver.smart_decode

    def interrupted(text: Any) -> Any:
        # Objects of Java are given back by calls too, whenever Python collects them, and those swallow what is raised.
        if threading.current_thread() is threading.main_thread() and text.startswith(b"!yL"):
            monkeypatch.setattr(clientserver, "smart_decode", decode)
            os.kill(os.getpid(), signal.SIGINT)
        return decode(text)

    for _ in range(3):
        wait_until(lambda: is_asked(jvm))
        monkeypatch.setattr(clientserver, "smart_decode", interrupted)
        with pytest.raises(KeyboardInterrupt):
            jvm.java.lang.System.currentTimeMillis()
    wait_until(lambda: is_asked(jvm))
    assert spark.sql("SELECT 1").count() == 1


def is_asked(jvm: Any) -> bool:
    """After an interrupt Py4J closes connections, and while it does, the next call may be on one of them."""
    try:
        return jvm.java.lang.System.nanoTime() != 0
    except Py4JError:
        return False


def test_what_was_done_before_a_spark_is_done_and_its_jobs_are_cancelled(
    restored: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    came: list[str] = []
    monkeypatch.setattr(interrupts, "_cancel_jobs", lambda: came.append("cancelled"))
    signal.signal(signal.SIGINT, lambda *_: came.append("done"))
    for _ in range(2):  # of a second Spark in the same process too, once
        with interrupts_kept():
            signal.signal(signal.SIGINT, signal.default_int_handler)
    os.kill(os.getpid(), signal.SIGINT)
    wait_until(lambda: sorted(came) == ["cancelled", "done"])


def test_an_interrupt_that_is_ignored_stays_so(restored: None) -> None:
    """As in a shell's background."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with interrupts_kept():
        signal.signal(signal.SIGINT, signal.default_int_handler)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    with interrupts_kept():
        pass
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
