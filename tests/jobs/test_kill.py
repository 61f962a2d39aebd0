"""kill -9 of the driver while messages flow.

The quick form kills twice. The long form: LAKEMQ_TEST_KILLS=30. LAKEMQ_TEST_SEED repeats the
instants of a failure as near as a machine allows.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from lakemq.jobs.lake_query import CHECKPOINTS
from lakemq.testing import start_gateway
from tests.jobs.conftest import produce_to
from tests.jobs.lake_checks import WAIT_S_MAX, check_once_in_each_table, wait_until_compacted

KILLS = int(os.environ.get("LAKEMQ_TEST_KILLS", "2"))
SEED = int(os.environ.get("LAKEMQ_TEST_SEED", str(uuid.uuid4().int % 2**32)))


class Flow:
    """Messages to two topics, all the time, in a thread of their own."""

    def __init__(self, url: str, seed: int) -> None:
        self._url, self._random = url, random.Random(seed)
        self._stopped = threading.Event()
        self.produced: set[tuple[Any, ...]] = set()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(0.05):
            topic = self._random.choice(("a", "b"))
            keys = [uuid.uuid4().hex for _ in range(self._random.randint(1, 100))]
            messages = [{"body": key, "keys": [key]} for key in keys]
            for key, answer in zip(keys, produce_to(self._url, topic, messages), strict=True):
                place = (answer["queue_id"], answer["queue_offset"], answer["position"])
                self.produced.add(("broker-a", topic, *place, key))


@contextlib.contextmanager
def driver(url: str, lake: Path, log: Path) -> Generator[subprocess.Popen[bytes]]:
    """`lakemq jobs` in a process of its own; it is killed at the end, however that comes."""
    environment = os.environ | {
        "LAKEMQ_LAKE__TRIGGER_MS": "0",
        "LAKEMQ_LAKE__OPTIMIZE_INTERVAL_MS": "3000",
        "LAKEMQ_SPARK__DRIVER_MEMORY": "1g",
        "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1",
    }
    command = [sys.executable, "-m", "lakemq", "jobs", "--broker", url, "--lake", str(lake)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stderr=output, stdout=output, env=environment)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def wait_until_ready(process: subprocess.Popen[bytes], log: Path) -> None:
    waiting = threading.Event()
    for _ in range(WAIT_S_MAX * 10):
        if b"lake query: ready" in log.read_bytes():
            return
        assert process.poll() is None, log.read_text(encoding="utf-8")
        waiting.wait(0.1)
    raise AssertionError("the lake query did not become ready:\n" + log.read_text(encoding="utf-8"))


@pytest.mark.timeout(400 * (KILLS + 2))
def test_a_driver_killed_at_any_instant_leaves_each_message_once(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    lake, log = tmp_path / "lake", tmp_path / "jobs.log"
    with start_gateway(tmp_path / "log") as gateway:
        flow = Flow(gateway.url, SEED)
        for _ in range(KILLS):
            with driver(gateway.url, lake, log) as process:
                wait_until_ready(process, log)
                threading.Event().wait(rng.uniform(0, 4))
                process.send_signal(signal.SIGKILL)
                process.wait()
            if rng.random() < 0.3:
                shutil.rmtree(lake / CHECKPOINTS, ignore_errors=True)
        with driver(gateway.url, lake, log) as process:
            wait_until_ready(process, log)
            flow.stop()
            try:
                wait_until_compacted(gateway.url, lambda: process.poll() is None)
            except AssertionError as error:
                raise AssertionError(log.read_text(encoding="utf-8")) from error
            process.terminate()
            assert process.wait(60) == 0, log.read_text(encoding="utf-8")
    check_once_in_each_table(lake, flow.produced, f"(LAKEMQ_TEST_SEED={SEED})")
