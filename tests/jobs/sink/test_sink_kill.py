"""The gateway is killed, and the stream stopped wherever it is, while a stream goes from one topic into
another; sometimes Spark forgets its last commit, as if the driver had died before it was written.

The quick form is of seconds. LAKEMQ_TEST_KILLS=30 goes on longer, and kills the driver too, in a process of
its own. LAKEMQ_TEST_SEED repeats the instants of a failure as near as a machine allows.
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lakemq.testing import GatewayProcess, start_gateway
from tests.gateway.http_client import connect, produce_arrow, pull_all
from tests.jobs.streams import begun
from tests.ports import Ports

KILLS = int(os.environ.get("LAKEMQ_TEST_KILLS", "2"))
SEED = int(os.environ.get("LAKEMQ_TEST_SEED", str(uuid.uuid4().int % 2**32)))
COUNT = 4_000 * KILLS
PER_BATCH = 1_000
SOURCE, TARGET = "in", "out"
WAIT_S_MAX = 240


class Killed:
    """A gateway at one address that is killed and started again, now and then."""

    def __init__(self, data_dir: Path, port: int) -> None:
        self._data_dir, self._port = data_dir, port
        self.process = self._start()

    def _start(self) -> GatewayProcess:
        return start_gateway(self._data_dir, gateway__port=self._port)

    @contextlib.contextmanager
    def killing(self, rng: random.Random) -> Generator[None]:
        """kill -9 now and then, and begin again."""
        stop = threading.Event()

        def kill() -> None:
            while not stop.wait(rng.uniform(0.3, 3)):
                self.process.kill()
                self.process = self._start()

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            yield
        finally:
            stop.set()
            killer.join()


def start(spark: SparkSession, url: str, checkpoint: Path, partitions: int) -> StreamingQuery:
    """Copies the one topic to the other, to the end, in so many tasks."""
    read = {"broker": url, "subscribe": SOURCE, "startingOffsets": "earliest", "columns": "body"}
    stream = spark.readStream.format("lakemq").options(**read, maxMessagesPerTrigger=str(PER_BATCH)).load()
    writer = stream.select("body").repartition(partitions).writeStream.format("lakemq").trigger(availableNow=True)
    return writer.options(broker=url, topic=TARGET, checkpointLocation=str(checkpoint)).start()


def forget_last_commit(checkpoint: Path) -> None:
    """What Spark has when its driver dies after the sink's commit."""
    commits = sorted((int(path.name) for path in (checkpoint / "commits").glob("[0-9]*")), reverse=True)
    if commits:
        for name in (f"{commits[0]}", f".{commits[0]}.crc"):
            (checkpoint / "commits" / name).unlink(missing_ok=True)


@contextlib.contextmanager
def driver(url: str, checkpoint: Path, log: Path) -> Generator[None]:
    """The same stream in a process of its own, killed at the end."""
    with log.open("wb") as output:
        command = [sys.executable, "-m", "tests.jobs.sink.test_sink_kill", url, str(checkpoint)]
        process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            yield
        finally:
            process.kill()
            process.wait()


@pytest.mark.timeout(600 + 60 * KILLS)
def test_each_message_is_copied_once_whatever_dies(spark: SparkSession, tmp_path: Path, ports: Ports) -> None:
    rng = random.Random(SEED)
    print(f"LAKEMQ_TEST_SEED={SEED}")  # noqa: T201  pytest shows it where it fails
    checkpoint, log = tmp_path / "checkpoint", tmp_path / "driver.log"
    gateway = Killed(tmp_path / "data", ports.take())
    url = gateway.process.url
    try:
        with connect(gateway.process) as http:
            produce_arrow(http, SOURCE, {"body": pa.array([b"%d" % number for number in range(COUNT)])})
        for number in range(KILLS):
            with gateway.killing(rng):
                if number % 2 and KILLS > 2:
                    with driver(url, checkpoint, log):
                        time.sleep(rng.uniform(8, 20))
                else:
                    query = start(spark, url, checkpoint, rng.randint(1, 3))
                    time.sleep(rng.uniform(1, 4))
                    with contextlib.suppress(PySparkException):
                        query.stop()
            if rng.random() < 0.5:
                forget_last_commit(checkpoint)
        assert begun(lambda: start(spark, url, checkpoint, 2).awaitTermination(WAIT_S_MAX))
        with connect(gateway.process) as http:
            copied = Counter(int(message["body"]) for message in pull_all(http, TARGET))
            staged = http.get("/v1/sinks").json()["staged_parts"]
    finally:
        gateway.process.stop()
    assert [number for number, times in copied.items() if times > 1] == []
    assert len(copied) == COUNT
    assert staged <= 3 * KILLS  # of batches that were stopped before their commit


if __name__ == "__main__":
    from lakemq.jobs.session.session import start_session
    from lakemq.settings import Settings

    start(start_session(Settings(), "sink driver"), sys.argv[1], Path(sys.argv[2]), 2).awaitTermination()
