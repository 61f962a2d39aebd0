from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGTERM, Signals

import pytest

from lakemq.jobs.process.run import run_jobs
from lakemq.model.errors import SettingsError
from lakemq.settings import Settings
from tests.cli.site import a_java_that_never_gets_up

WAIT_S_MAX = 150.0

TOLD_AS_IT_FORKS = """
import os, signal, sys
told = []
def tell():
    if not told:
        told.append(True)
        os.kill(os.getpid(), {signal})
os.register_at_fork(after_in_parent=tell)
from lakemq.jobs.process.run import run_jobs
from lakemq.settings import Settings
run_jobs(Settings(lake={{"dir": {lake!r}}}), "http://127.0.0.1:1", [])
assert told
"""


RUN = """
from lakemq.jobs.process.run import run_jobs
from lakemq.settings import Settings
run_jobs(Settings(lake={{"dir": {lake!r}}}), "http://127.0.0.1:1", [])
"""


def test_an_unknown_job_is_an_error_that_names_those_there_are() -> None:
    with pytest.raises(SettingsError, match="'lak'; there are lake, maintenance, delay, transaction, retry"):
        run_jobs(Settings(), "http://127.0.0.1:1", ["lake", "lak"])


@pytest.mark.parametrize("signal", ["signal.SIGINT", "signal.SIGTERM"])
def test_a_signal_that_comes_as_java_is_forked_is_not_lost(tmp_path: Path, signal: str) -> None:
    """Python drops what a hook after a fork raises."""
    environment = os.environ | {"JAVA_HOME": str(a_java_that_never_gets_up(tmp_path / "jdk"))}
    code = TOLD_AS_IT_FORKS.format(signal=signal, lake=str(tmp_path / "lake"))
    subprocess.run([sys.executable, "-c", code], env=environment, timeout=WAIT_S_MAX, check=True)


INTERRUPTED_CALL = """
import logging, os, sys, threading
from py4j.clientserver import ClientServer, JavaParameters, PythonParameters
from lakemq.jobs.process.interrupt import interrupted_by_signals
logging.basicConfig(stream=sys.stderr)
stop = threading.Event()
try:
    with interrupted_by_signals(stop):
        ClientServer(JavaParameters(port={port}), PythonParameters(port=0)).jvm.java
except KeyboardInterrupt:
    assert stop.is_set()
    logging.getLogger().error("what else is wrong is said")
    os._exit(3)  # py4j's threads would go on
"""


def test_a_call_to_java_that_a_signal_cuts_short_is_no_error_with_a_traceback() -> None:
    with socket.create_server(("127.0.0.1", 0)) as java:
        code = INTERRUPTED_CALL.format(port=java.getsockname()[1])
        jobs = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
        java.settimeout(WAIT_S_MAX)
        connection, _ = java.accept()
        with connection:
            connection.settimeout(WAIT_S_MAX)
            assert connection.recv(1)  # it waits for the answer from now on
            jobs.send_signal(SIGINT)
            _, said = jobs.communicate(timeout=WAIT_S_MAX)
    assert (jobs.returncode, said) == (3, "ERROR:root:what else is wrong is said\n")


@pytest.mark.parametrize("number", [SIGINT, SIGTERM])
def test_a_java_that_is_not_up_yet_ends_with_the_jobs(tmp_path: Path, number: Signals) -> None:
    """Regression: PySpark forgot it, and it went on for good."""
    java, at = tmp_path / "jdk/bin/java", tmp_path / "pid"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho $$ > {at}.new && mv {at}.new {at}\nexec sleep 1000\n")
    java.chmod(0o755)
    code = RUN.format(lake=str(tmp_path / "lake"))
    jobs = subprocess.Popen([sys.executable, "-c", code], env=os.environ | {"JAVA_HOME": str(java.parents[1])})
    until(at.exists)
    pid = int(at.read_text())
    try:
        jobs.send_signal(number)
        assert jobs.wait(WAIT_S_MAX) == 0
        until(lambda: not Path(f"/proc/{pid}/cmdline").exists() or not Path(f"/proc/{pid}/cmdline").read_bytes())
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, SIGKILL)
        jobs.kill()


def until(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + WAIT_S_MAX
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.05)
