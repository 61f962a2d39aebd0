from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lakemq.jobs.run import run_jobs
from lakemq.model.errors import SettingsError
from lakemq.settings import Settings
from lakemq.testing import start_gateway
from tests.gateway.http import connect, produce
from tests.gateway.routing import begin, nack, resolve
from tests.jobs.routing.conftest import bodies

WAIT_S_MAX = 300.0


def test_an_unknown_job_is_an_error_that_names_those_there_are() -> None:
    with pytest.raises(SettingsError, match="'lak'; there are lake, maintenance, delay, transaction, retry"):
        run_jobs(Settings(), "http://127.0.0.1:1", ["lake", "lak"])


def wait_until(done: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + WAIT_S_MAX
    while not done():
        assert process.poll() is None, log.read_text(encoding="utf-8")
        assert time.monotonic() < end, log.read_text(encoding="utf-8")
        time.sleep(0.1)


def test_routing_runs_while_another_process_writes_the_lake_and_stops_on_request(tmp_path: Path) -> None:
    lake, log = tmp_path / "lake", tmp_path / "jobs.log"
    lake.mkdir()
    command = [sys.executable, "-m", "lakemq", "jobs", "delay", "transaction", "retry", "--lake", str(lake)]
    environment = os.environ | {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1", "LAKEMQ_SPARK__DRIVER_MEMORY": "1g"}
    with (
        start_gateway(tmp_path / "log", routing__lead_ms=0) as gateway,
        connect(gateway) as http,
        (lake / "_lock").open("wb") as lock,
        log.open("wb") as output,
    ):
        fcntl.lockf(lock, fcntl.LOCK_EX)
        process = subprocess.Popen([*command, "--broker", gateway.url], stderr=output, env=environment)
        try:
            wait_until(lambda: log.read_bytes().count(b"query: ready") == 4, process, log)
            produce(http, "t", {"body": "later", "delay_ms": 1})
            nack(http, "g", *[each["message_id"] for each in produce(http, "t", {"body": "now"})])
            (transaction_id,) = begin(http, "t", "committed")
            resolve(http, transaction_id, "commit")
            wait_until(lambda: bodies(http, "t") == ["committed", "later", "now"], process, log)
            wait_until(lambda: http.get("/v1/routing").json()["retry"]["waiting"] == 0, process, log)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()
            process.wait()
