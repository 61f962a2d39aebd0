"""One run: mixed load, faults at random, a quiet end, and the check of all that was seen."""

from __future__ import annotations

import random
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lakemq.testing.history import Finding, Recorder, check
from tests.chaos.caller import Caller, Violation
from tests.chaos.scan import scan
from tests.chaos.target import Target
from tests.chaos.workers import DELAYED, QUEUES, RECEIVED, SUNK, TOPIC, TRANSACTED, WORKERS, Worker
from tests.reliability.fork_server import ForkServer

OPTIONS: dict[str, object] = {
    "storage__segment_bytes": 4 * 1024 * 1024,
    "storage__snapshot_bytes": 500_000,
    "storage__snapshot_interval_ms": 200,
    "storage__flush_interval_ms": 50,
    "storage__free_bytes_min": 0,
    "routing__grace_ms": 500,
    "routing__clock_confirm_ms": 2_000,
}
SETTLE_S_MAX = 180.0
"""The log's time never goes back: after a clock that was set back by a minute what waits is due as much later."""
STEP_PAUSE_S = 0.03
SAID_LINES_MAX = 10
SAID_CHARACTERS_MAX = 1_000
RUNNING_S = (0.3, 2.5)


@dataclass
class Outcome:
    """What a run did and what the checker says."""

    counts: Counter[str] = field(default_factory=Counter[str])
    findings: list[Finding | str] = field(default_factory=list["Finding | str"])


def kill(target: Target, _: random.Random) -> None:
    target.kill()
    target.start()


def stop(target: Target, _: random.Random) -> None:
    target.stop()
    target.start()


def freeze(target: Target, chance: random.Random) -> None:
    target.freeze(chance.uniform(0.1, 2))


def descriptors(target: Target, chance: random.Random) -> None:
    target.exhaust_descriptors(chance.uniform(0.1, 2), chance.randrange(3))


def disk(target: Target, chance: random.Random) -> None:
    target.fill_disk(chance.uniform(0.1, 2))


def clock(target: Target, chance: random.Random) -> None:
    target.set_clock(chance.choice((0, -5_000, 1_000, 10_000, 60_000)))


FAULTS: dict[str, Callable[[Target, random.Random], None]] = {
    "kill": kill, "stop": stop, "freeze": freeze, "descriptors": descriptors, "disk": disk, "clock": clock,
}  # fmt: skip


class Run:
    """The load of `WORKERS` on one broker, and one fault of `kinds` after the other."""

    def __init__(
        self,
        data_dir: Path,
        recorder: Recorder,
        seed: int,
        kinds: Sequence[str],
        workers: Sequence[str] = tuple(WORKERS),
        module: str | None = None,
        forks: ForkServer | None = None,
    ) -> None:
        self._seed = seed
        self._chance = random.Random(seed)
        self._kinds = kinds
        self._workers = workers
        self._over = threading.Event()
        self._recorder = recorder
        self.target = Target(data_dir, recorder, OPTIONS, None, module, forks)
        self.outcome = Outcome()

    def run(self, seconds: float, faults_min: int = 1, settle_s: float = SETTLE_S_MAX) -> Outcome:
        """Load and faults for so long, then the check. A broker that does not start again, or ends by itself, is a
        finding too."""
        try:
            self._run(seconds, faults_min, settle_s)
        except Exception as error:  # noqa: BLE001  whatever it is, the run has failed and must say so
            self.outcome.findings += [self._say(error), *check(self._recorder.history())]
        self.outcome.findings += [line.strip() for line in self.target.log if "Traceback" in line]
        return self.outcome

    def _say(self, error: Exception) -> str:
        """The error, where it was raised, and the log's last lines, as one line."""
        place = traceback.extract_tb(error.__traceback__)[-1]
        last = " | ".join(line.strip() for line in self.target.log[-SAID_LINES_MAX:])
        what = f"{type(error).__name__}: {error}"[:SAID_CHARACTERS_MAX].replace("\n", " | ")
        where = f"{Path(place.filename).name}:{place.lineno}"
        return f"seed {self._seed}, life {self.target.lives}: {what} ({where}); the log's last lines: {last}"

    def _run(self, seconds: float, faults_min: int, settle_s: float) -> None:
        try:
            self.target.start()
            self._make_topics()
            threads = [
                threading.Thread(target=self._work, args=(name, self._chance.randrange(2**32)))
                for name in self._workers
            ]
            for thread in threads:
                thread.start()
            try:
                self._disturb(seconds, faults_min)
            finally:
                self.target.stopping.set()
                self._over.set()
                for thread in threads:
                    thread.join()
            self._settle(settle_s)
        finally:
            self.target.end()

    def _make_topics(self) -> None:
        caller = Caller("maker", self.target)
        for topic in (TOPIC, DELAYED, TRANSACTED, RECEIVED, SUNK):
            number = self._recorder.invoke(caller.name, "topic")
            answer = caller.ask(number, "PUT", f"/v1/topics/{topic}", json={"queues": QUEUES})
            assert answer is not None
            self._recorder.ok(number)
        caller.close()

    def _work(self, name: str, seed: int) -> None:
        caller = Caller(name, self.target)
        chance = random.Random(seed)
        worker: Worker = WORKERS[name](caller, chance)
        while not self._over.is_set():
            if self.target.url is None:
                time.sleep(STEP_PAUSE_S)
                continue
            try:
                worker.step()
            except Violation as violation:
                self.outcome.findings.append(str(violation))
            except Exception as error:  # noqa: BLE001  whatever it is, the run has failed and must say so
                self.outcome.findings.append(f"{name}: {error!r}")
                break
            time.sleep(chance.uniform(0, STEP_PAUSE_S))
        worker.close()
        self.outcome.counts["answers"] += caller.answers
        self.outcome.counts["refused"] += caller.refused

    def _disturb(self, seconds: float, faults_min: int) -> None:
        end = time.monotonic() + seconds
        done = 0
        while done < faults_min or time.monotonic() < end:
            time.sleep(self._chance.uniform(*RUNNING_S))
            kind = self._kinds[done] if done < len(self._kinds) else self._chance.choice(self._kinds)
            FAULTS[kind](self.target, self._chance)
            self.outcome.counts[kind] += 1
            done += 1
        time.sleep(self._chance.uniform(*RUNNING_S))

    def _settle(self, settle_s: float) -> None:
        """The clock is right again; what is due by now has to come, then the log is looked at."""
        self.target.kill()
        self.target.set_clock(0)
        self.target.start()
        settled_ms = self.target.now_ms()
        caller = Caller("checker", self.target)
        end = time.monotonic() + settle_s
        while True:
            if scan(caller, settled_ms=settled_ms):
                findings = check(self._recorder.history())
                if not findings or time.monotonic() > end:
                    break
            if time.monotonic() > end:
                findings = ["the log could not be read"]
                break
            time.sleep(1)
        caller.close()
        self.outcome.findings += findings
        history = self._recorder.history()
        self.outcome.counts["operations"] = len(history.operations)
        self.outcome.counts["messages"] = sum(len(each.request["payloads"]) for each in history.of("produce", "half"))
