"""200 consumers that join, leave and are killed at random, under load: `python -m benchmarks.churn`.

Half of them are an orderly group, half a concurrent one, of the same topic; some processes with many
consumers each. Now and then a process is killed with kill -9, and another takes its place. Of each
group it counts messages that were never processed (there must be none), messages of the orderly group
out of order (none), and duplicates, each by its cause: whoever processed it first was killed before it
committed that; or lost the queue to another that began before that was committed (0.4 s are waited for
it, which a machine that is too busy does not keep to).
"""

from __future__ import annotations

import random
import subprocess
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import churn_worker
from benchmarks.broker import gateway, make_topic, scratch
from benchmarks.cpu import Meter
from benchmarks.options import sizes
from benchmarks.results import emit, say
from lakemq.client import Producer

TOPIC = "churn"
DRAIN_S = 120.0
TICK_S = 0.01


class Seen(NamedTuple):
    """One message that a consumer processed."""

    group: str
    key: str
    number: int
    time_ns: int
    client_id: str


class Load:
    """Produces numbered messages of ordering keys at a rate, until stopped."""

    def __init__(self, url: str, keys: int, rate: float) -> None:
        self.sent: Counter[str] = Counter()
        self._producer = Producer(url)
        self._keys = [f"k{number}" for number in range(keys)]
        self._rate = rate
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        begin, count = time.monotonic(), 0
        while not self._stop.wait(TICK_S):
            for _ in range(int((time.monotonic() - begin) * self._rate) - count):
                key = self._keys[count % len(self._keys)]
                self._producer.send_async(TOPIC, f"{key}:{self.sent[key]}", ordering_key=key)
                self.sent[key] += 1
                count += 1

    def stop(self) -> int:
        """Send no more; how many were. Raises `SendFailed` when one was not stored."""
        self._stop.set()
        self._thread.join()
        self._producer.close()
        return self.sent.total()


class Workers:
    """The processes with the consumers."""

    def __init__(self, url: str, folder: Path, count: int, consumers: int, mean_s: float) -> None:
        self._url = url
        self._folder = folder
        self._consumers = consumers // count
        self._mean_s = mean_s
        self.killed: set[str] = set()
        self._started = 0
        self._living: dict[str, subprocess.Popen[str]] = {}
        for _ in range(count):
            self._start()

    def _start(self) -> None:
        name = f"w{self._started}"
        self._started += 1
        out = self._folder / f"{name}.seen"
        self._living[name] = churn_worker.start(self._url, TOPIC, name, self._consumers, self._mean_s, out)

    def kill_one(self, chance: random.Random) -> None:
        """kill -9 one of them, and start another."""
        name = chance.choice(sorted(self._living))
        process = self._living.pop(name)
        process.kill()
        process.communicate()
        self.killed.add(name)
        self._start()

    def stop(self) -> int:
        """End them; how often the consumers of those that were not killed joined."""
        for process in self._living.values():
            assert process.stdin is not None
            process.stdin.close()
            process.stdin = None
        return sum(int(process.communicate(timeout=60)[0]) for process in self._living.values())

    def seen(self) -> list[Seen]:
        """What was processed so far, by time."""
        seen: list[Seen] = []
        for file in self._folder.glob("*.seen"):
            for line in file.read_text().splitlines():
                group, key, number, time_ns, client_id = line.split()
                seen.append(Seen(group, key, int(number), int(time_ns), client_id))
        return sorted(seen, key=lambda each: each.time_ns)


def judge(group: str, seen: list[Seen], sent: Counter[str], killed: set[str]) -> dict[str, int]:
    """What became of a group's messages. `out_of_order`: a message that came before one of its key with
    a lower number did for the first time; a repetition goes back, and on from there."""
    before: dict[str, int] = defaultdict(lambda: -1)
    first: dict[tuple[str, int], Seen] = {}
    counts = Counter({"processed": 0, "duplicates": 0, "out_of_order": 0})
    for each in seen:
        if each.group != group:
            continue
        counts["processed"] += 1
        counts["out_of_order"] += each.number > before[each.key] + 1
        before[each.key] = each.number
        old = first.setdefault((each.key, each.number), each)
        if old is not each:
            counts["duplicates"] += 1
            counts[f"duplicates_{_cause(old, each, killed)}"] += 1
    return {"lost": sent.total() - len(first), **counts}


def _cause(old: Seen, new: Seen, killed: set[str]) -> str:
    if old.client_id.rpartition("-")[0] in killed:
        return "killed_before_commit"
    return "handed_over_before_commit" if old.client_id != new.client_id else "lost_and_regained"


def run(folder: Path, chosen: Any) -> dict[str, dict[str, int]]:
    """One run; what became of the messages, by group."""
    chance = random.Random(chosen.seed)
    member_ms, lock_ms = int(chosen.expiry_s * 1000), int(chosen.lock_s * 1000)
    options = {"groups__member_expiry_ms": member_ms, "groups__lock_expiry_ms": lock_ms}
    with gateway(folder / "data", **options) as process:
        make_topic(process.url, TOPIC, chosen.queues)
        with Meter(process.pid) as meter:
            workers = Workers(process.url, folder, chosen.workers, chosen.consumers, chosen.mean_s)
            load = Load(process.url, chosen.keys, chosen.rate)
            end = time.monotonic() + chosen.seconds
            while (left := end - time.monotonic()) > 0:
                time.sleep(min(left, chance.expovariate(1 / chosen.kill_every_s)))
                if time.monotonic() < end:
                    workers.kill_one(chance)
            sent = load.stop()
            _drain(workers, sent)
            joined = workers.stop()
        seen = workers.seen()
    found: dict[str, dict[str, int]] = {}
    for group in (churn_worker.ORDERLY, churn_worker.CONCURRENT):
        found[group] = judge(group, seen, load.sent, workers.killed)
        settings = {name: value for name, value in vars(chosen).items() if name != "quick"}
        more = {"sent": sent, "killed_processes": len(workers.killed), "joined_at_least": joined}
        emit(f"churn, {group} group", found[group]["lost"], "lost", settings, **found[group], **more, **meter.spent())
    return found


def _drain(workers: Workers, sent: int) -> None:
    """Wait until both groups have all, or nothing more comes."""
    deadline = time.monotonic() + DRAIN_S
    while time.monotonic() < deadline:
        time.sleep(1)
        distinct = Counter(group for group, *_ in {(each.group, each.key, each.number) for each in workers.seen()})
        if min(distinct[churn_worker.ORDERLY], distinct[churn_worker.CONCURRENT]) >= sent:
            return


def main() -> None:
    chosen = sizes(
        __doc__,
        consumers=(200, 24),
        workers=(8, 3),
        queues=(64, 8),
        keys=(256, 16),
        rate=(200, 100),
        seconds=(300, 8),
        mean_s=(120.0, 2.0),
        kill_every_s=(30.0, 3.0),
        expiry_s=(10.0, 2.0),
        lock_s=(60.0, 8.0),
        seed=(20_261_121, 7),
    )
    say(f"churn: seed {chosen.seed}")
    with scratch() as folder:
        found = run(folder, chosen)
    if any(each["lost"] for each in found.values()) or found[churn_worker.ORDERLY]["out_of_order"]:
        raise SystemExit("messages were lost, or out of order")


if __name__ == "__main__":
    main()
