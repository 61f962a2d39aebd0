"""Power cuts under a gateway: `python -m tests.power.run --cuts 100 --seed 7`.

Round after round: a gateway under load on a file system that forgets what was not synced, killed at a
random time, power cut, started on what is left; the history over all rounds is checked.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from pathlib import Path

from lakemq.testing.history import Finding, History, Recorder, check
from tests.chaos.caller import Caller
from tests.chaos.scan import scan
from tests.chaos.target import Target
from tests.chaos.workers import QUEUES, TOPIC, Consumer, Producer, Transactor, Worker
from tests.power.command import main
from tests.power.machine import Machine
from tests.reliability.fork_server import ForkServer

OPTIONS: dict[str, object] = {
    "storage__segment_bytes": 1024 * 1024,
    "storage__snapshot_bytes": 100_000,
    "storage__snapshot_interval_ms": 100,
    "storage__flush_interval_ms": 20,
    "storage__memory_survives": False,  # this power is cut while the kernel runs on
}
LOAD_S = (0.0, 0.4)


class PowerRun:
    """One log over many power cuts."""

    def __init__(
        self, folder: Path, recorder: Recorder, seed: int, forks: ForkServer | None = None, module: str | None = None
    ) -> None:
        self._chance = random.Random(seed)
        self._recorder = recorder
        self._machine = Machine(folder, forks)
        self._target = Target(self._machine.data / "data", recorder, OPTIONS, folder / "clock", module, forks)
        self._findings: list[Finding | str] = []
        self.counts: Counter[str] = Counter()

    def run(self, cuts: int) -> list[Finding | str]:
        """So many cuts, and the check."""
        try:
            self._run(cuts)
        except RuntimeError as error:  # a start is refused
            return [str(error)[-1000:], *self._findings, *check(self._recorder.history())]
        history: History = self._recorder.history()
        self.counts["operations"] = len(history.operations)
        self.counts["messages"] = sum(len(each.request["payloads"]) for each in history.of("produce", "half"))
        self.counts["synced"] = sum(
            len(each.request["payloads"]) for each in history.done("produce") if each.request["ack"] == "sync"
        )
        self._findings += [line.strip() for line in self._target.log if "Traceback" in line]
        return [*self._findings, *check(history)]

    def _run(self, cuts: int) -> None:
        with self._machine:
            for _ in range(cuts):
                self._machine.start(self._chance.randrange(2**32))
                self._target.start()
                try:
                    self._load()
                finally:
                    self._target.kill()
                self._recorder.note("machine", "fault", fault="power cut")
                self._machine.cut_power()
                self.counts["cuts"] += 1
            self._machine.start(0)
            self._target.start()
            try:
                checker = Caller("checker", self._target)
                assert scan(checker), "the log can't be read"
                checker.close()
            finally:
                self._target.kill()

    def _load(self) -> None:
        over = self._target.stopping
        over.clear()
        maker = Caller("maker", self._target)
        maker.ask(self._recorder.invoke("maker", "topic"), "PUT", f"/v1/topics/{TOPIC}", json={"queues": QUEUES})
        maker.close()
        life = self.counts["cuts"]

        def work(name: str, make: type[Producer] | type[Transactor] | None, seed: int) -> None:
            caller = Caller(f"{name}.{life}", self._target)
            chance = random.Random(seed)
            worker: Worker = Consumer(caller, chance, 0) if make is None else make(caller, chance)
            try:
                while not over.is_set():
                    worker.step()
            except Exception as error:  # noqa: BLE001  whatever it is, the run has failed and must say so
                self._findings.append(f"{name}: {error!r}")
            worker.close()

        programs = (("p1", Producer), ("p2", Producer), ("t", Transactor), ("c", None))
        threads = [threading.Thread(target=work, args=(*each, self._chance.randrange(2**32))) for each in programs]
        for thread in threads:
            thread.start()
        time.sleep(self._chance.uniform(*LOAD_S))
        over.set()
        self._target.running.kill()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    raise SystemExit(main("tests.power.run", __doc__ or "", PowerRun, 20))
