"""Power cuts under a gateway, its jobs (Spark) and their lake: `python -m tests.power.lake_run --cuts 3 --seed 7`.

Log and lake are on one machine, which loses power at a random time while the jobs write; the log lets go of
what the lake holds as early as it may. In the end each message that was promised is in log or lake, once.
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

from lakemq.storage.lake.progress import read_progress
from lakemq.testing.history import Finding, Recorder, check, name_of_payload
from tests.chaos.caller import Caller
from tests.chaos.scan import scan
from tests.chaos.target import Target
from tests.chaos.workers import QUEUES, TOPIC, Producer
from tests.power.command import main
from tests.power.machine import Machine
from tests.quick_spark import QUICK_SPARK
from tests.reliability.fork_server import ForkServer

WAIT_S_MAX = 300.0
LOAD_S = (0.0, 10.0)
OPTIONS: dict[str, Any] = {
    "storage__memory_survives": "false",
    "storage__segment_bytes": 1024 * 1024,
    "storage__flush_interval_ms": 20,
    "storage__retention_ms": 1_000,
}
BROKER = "broker-a"
COLUMNS = ["topic", "queue_id", "queue_offset", "position", "body"]


class LakeRun:
    """One broker and one lake over some power cuts."""

    def __init__(self, folder: Path, recorder: Recorder, seed: int, forks: ForkServer) -> None:
        self._chance = random.Random(seed)
        self._recorder = recorder
        self._machine = Machine(folder, forks)
        self._lake = self._machine.data / "lake"
        self._jobs_log = folder / "jobs.log"
        options = OPTIONS | {"lake__dir": self._lake}
        self._target = Target(self._machine.data / "data", recorder, options, folder / "clock", forks=forks)
        self.counts: Counter[str] = Counter()

    def run(self, cuts: int) -> list[Finding | str]:
        """So many cuts, and the check."""
        try:
            with self._machine, self._target:
                for _ in range(cuts):
                    self._one_life()
                    self._recorder.note("machine", "fault", fault="power cut")
                    self._machine.cut_power()
                    self.counts["cuts"] += 1
                self._last_life()
        except RuntimeError as error:
            return [str(error)[-2000:]]
        history = self._recorder.history()
        self.counts["messages"] = sum(len(each.request["payloads"]) for each in history.of("produce"))
        return [*(line.strip() for line in self._target.log if "Traceback" in line), *check(history)]

    def _one_life(self) -> None:
        self._machine.start(self._chance.randrange(2**32))
        self._target.start()
        over = threading.Event()
        producer = threading.Thread(target=self._produce, args=(over, self._chance.randrange(2**32)))
        producer.start()
        try:
            with self._jobs() as jobs:
                self._wait_until(lambda: b"lake query: ready" in self._jobs_log.read_bytes(), jobs)
                time.sleep(self._chance.uniform(*LOAD_S))
                self._target.kill()
        finally:
            over.set()
            producer.join()

    def _last_life(self) -> None:
        self._machine.start(0)
        self._target.start()
        caller = Caller("checker", self._target)
        try:
            with self._jobs() as jobs:
                end = self._end(caller)
                self._wait_until(lambda: self._held() >= end, jobs)
            self._record_lake(end)
            if not scan(caller):
                raise RuntimeError("the log can't be read")
        finally:
            caller.close()
        self._target.kill()

    def _end(self, caller: Caller) -> int:
        answer = caller.ask(self._recorder.invoke(caller.name, "broker"), "GET", "/v1/broker")
        if answer is None:
            raise RuntimeError("the broker does not answer")
        return answer.json()["max_position"]

    def _held(self) -> int:
        tables = [self._lake / name for name in ("messages", "consume_queue", "message_index")]
        return min(read_progress(table).held.get(BROKER, -1) for table in tables)

    def _record_lake(self, end: int) -> None:
        from deltalake import DeltaTable

        number = self._recorder.invoke("checker", "lake")
        table = DeltaTable(str(self._lake / "messages")).to_pyarrow_table(columns=COLUMNS)
        found = [row for row in table.to_pylist() if row["topic"] == TOPIC]
        rows = [[*(row[name] for name in COLUMNS[:4]), name_of_payload(row["body"])] for row in found]
        self._recorder.ok(number, rows=rows, end=end)

    def _produce(self, over: threading.Event, seed: int) -> None:
        caller = Caller(f"producer.{self.counts['cuts']}", self._target)
        caller.ask(self._recorder.invoke("maker", "topic"), "PUT", f"/v1/topics/{TOPIC}", json={"queues": QUEUES})
        worker = Producer(caller, random.Random(seed))
        while not over.wait(0.03):
            worker.step()
        worker.close()

    @contextlib.contextmanager
    def _jobs(self) -> Generator[subprocess.Popen[bytes]]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LAKEMQ_")}
        environment |= QUICK_SPARK | {"LAKEMQ_LAKE__TRIGGER_MS": "0", "LAKEMQ_SQL__PORT": "0"}
        command = [sys.executable, "-m", "lakemq", "jobs", "lake", "--broker", str(self._target.url)]
        command += ["--lake", str(self._lake)]
        with self._jobs_log.open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
            try:
                yield process
            finally:
                process.kill()
                process.wait()

    def _wait_until(self, done: Any, jobs: subprocess.Popen[bytes]) -> None:
        end = time.monotonic() + WAIT_S_MAX
        while not done():
            if jobs.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the jobs ended or did not go on: {self._jobs_log.read_text()[-2000:]}")
            time.sleep(0.1)


if __name__ == "__main__":
    raise SystemExit(main("tests.power.lake_run", __doc__ or "", LakeRun, 3))
