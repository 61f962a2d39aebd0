"""Power cuts under a gateway: `python -m tests.power.run --cuts 100 --seed 7`.

Round after round: a gateway under load on a file system that forgets what was not synced, killed at a
random time, power cut, started on what is left; delays, transactions and receipts go on over the cuts. In the end
all that waits has to come, and the history over all rounds is checked.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from pathlib import Path

from lakemq.testing.history import Finding, History, Recorder, check
from lakemq.testing.history.power_cuts import POWER_CUT
from tests.chaos.caller import Caller
from tests.chaos.scan import scan
from tests.chaos.target import Target
from tests.chaos.workers import QUEUES, RECEIVED, TOPIC, WORKERS
from tests.power.command import main
from tests.power.machine import Machine
from tests.reliability.fork_server import ForkServer

GRACE_MS = 500
OPTIONS: dict[str, object] = {
    "storage__segment_bytes": 1024 * 1024,
    "storage__snapshot_bytes": 100_000,
    "storage__snapshot_interval_ms": 100,
    "storage__flush_interval_ms": 20,
    "storage__memory_survives": False,  # this power is cut while the kernel runs on
    "routing__grace_ms": GRACE_MS,
    "routing__clock_confirm_ms": 2_000,
}
EVENTS_MAX = 600
LOAD_S_MAX = 2.0
"""A life ends after so many beginnings and ends of operations, so that a busy machine has as much to lose; or when
this time is over."""
SETTLE_S_MAX = 180.0
PROGRAMS = ("producer-1", "producer-2", "consumer-0", "delayer", "transactor", "receiver-1", "receiver-2", "latecomer")
FLUSHES = ("async", "async", "sync")
"""Of a life. With `sync` receipts, acknowledgements and commits of offsets are promised, too."""


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
            self._findings.append(str(error)[-1000:])
        history: History = self._recorder.history()
        self.counts["operations"] = len(history.operations)
        self.counts["messages"] = sum(len(each.request["payloads"]) for each in history.of("produce", "half"))
        self.counts["synced"] = sum(
            len(each.request["payloads"]) for each in history.done("produce") if each.request["ack"] == "sync"
        )
        for kind in ("resolve", "receive", "ack", "nack"):
            self.counts[f"{kind}s"] = sum(1 for _ in history.done(kind))
        self._findings += [line.strip() for line in self._target.log if "Traceback" in line]
        return [*self._findings, *check(history)]

    def _run(self, cuts: int) -> None:
        with self._machine, self._target:
            for _ in range(cuts):
                self._machine.start(self._chance.randrange(2**32))
                self._target.start(self._chance.choice(FLUSHES))
                self._load()
                self._recorder.note("machine", "fault", fault=POWER_CUT)
                self._machine.cut_power()
                self.counts["cuts"] += 1
            self._machine.start(0)
            self._target.start()
            self._look()
            self._target.kill()

    def _look(self) -> None:
        """Read the log once all has come that was due before."""
        decides_from_ms = self._target.now_ms() + GRACE_MS
        checker = Caller("checker", self._target)
        end = time.monotonic() + SETTLE_S_MAX
        while not (self._target.now_ms() > decides_from_ms and nothing_waits(checker)):
            if time.monotonic() > end:
                self._findings.append(f"something waited still after {SETTLE_S_MAX} s")
                break
            time.sleep(0.1)
        if not scan(checker, settled_ms=self._target.now_ms()):
            self._findings.append("the log can't be read")
        checker.close()

    def _load(self) -> None:
        """A life under load, to its end."""
        over = self._target.stopping
        over.clear()
        maker = Caller("maker", self._target)
        for topic in (TOPIC, RECEIVED):
            maker.ask(self._recorder.invoke("maker", "topic"), "PUT", f"/v1/topics/{topic}", json={"queues": QUEUES})
        maker.close()
        life = self.counts["cuts"]

        def work(name: str, seed: int) -> None:
            caller = Caller(f"{name}.{life}", self._target)
            worker = WORKERS[name](caller, random.Random(seed))
            try:
                while not over.is_set():
                    worker.step()
            except Exception as error:  # noqa: BLE001  whatever it is, the run has failed and must say so
                self._findings.append(f"{name}: {error!r}")
            worker.close()

        threads = [threading.Thread(target=work, args=(name, self._chance.randrange(2**32))) for name in PROGRAMS]
        for thread in threads:
            thread.start()
        try:
            events = self._recorder.events + self._chance.randrange(EVENTS_MAX)
            end = time.monotonic() + LOAD_S_MAX
            while self._recorder.events < events and time.monotonic() < end:
                time.sleep(0.002)
            over.set()
            self._target.kill()
        finally:
            for thread in threads:
                thread.join()


def nothing_waits(caller: Caller) -> bool:
    """Whether nothing that is due is still to come."""
    broker = caller.ask(caller.recorder.invoke(caller.name, "broker"), "GET", "/v1/broker")
    routing = caller.ask(caller.recorder.invoke(caller.name, "routing"), "GET", "/v1/routing")
    if broker is None or routing is None:
        return False
    waiting = routing.json()
    return not (broker.json()["overdue"] or waiting["delay"]["waiting"] or waiting["retry"]["waiting"])


if __name__ == "__main__":
    raise SystemExit(main("tests.power.run", __doc__ or "", PowerRun, 20))
