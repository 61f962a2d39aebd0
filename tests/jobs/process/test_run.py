from __future__ import annotations

import os
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
