"""Drivers and executors of a Spark cluster that are killed while messages flow: `python -m tests.reliability.cluster
--kills 10`.

A master and two workers on this machine, the jobs with `spark.master = spark://…`. Each message must be in each table
of the lake once, and each delayed message delivered once, whoever died: an executor; the driver; or a driver that
stood still while another waited for its place.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from lakemq.testing import start_gateway
from lakemq.testing.spark_cluster import SparkCluster, start_spark_cluster
from tests.jobs.lake.test_lake_kill import ALONE, ROUNDS_MAX, SETTINGS, Messages, Routed
from tests.jobs.lake_checks import check_once_in_each_table, rows_of, wait_until_compacted
from tests.quick_spark import JAVA_OPTIONS, QUICK_SPARK
from tests.reliability.results import append

EXECUTOR, DRIVER, REPLACED = "executor", "driver", "replaced"
KINDS = (EXECUTOR, DRIVER, REPLACED)
WAIT_S_MAX = 600.0
JOBS = ("lake", "delay", "transaction", "retry")
READY = b"lake query: ready"
WAITS = b"waiting until it ends"
TASKS = {"LAKEMQ_LAKE__PARTITIONS": "2"}


class Outcome(NamedTuple):
    kills: Counter[str]
    messages: int
    findings: list[str]


class Jobs:
    """`lakemq jobs` on the cluster, in a process of its own."""

    def __init__(self, cluster: SparkCluster, url: str, lake: Path, log: Path, names: Sequence[str]) -> None:
        command = [sys.executable, "-m", "lakemq", "jobs", *names, "--broker", url, "--lake", str(lake)]
        self._log = log
        with log.open("wb") as output:
            own = {"LAKEMQ_SPARK__MASTER": cluster.master, "LAKEMQ_SPARK__CONF": json.dumps(cluster.conf)}
            environment = os.environ | QUICK_SPARK | SETTINGS | TASKS | own
            self.process = subprocess.Popen(command, stderr=output, stdout=output, env=environment)

    def said(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def is_alive(self) -> bool:
        return self.process.poll() is None

    def wait_until_said(self, text: bytes) -> None:
        wait(lambda: text in self._log.read_bytes() or not self.is_alive())
        assert text in self._log.read_bytes(), self.said()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def run(
    folder: Path,
    kinds: Sequence[str],
    seed: int,
    names: Sequence[str] = JOBS,
    workers: int = 2,
    rounds: int = ROUNDS_MAX,
) -> Outcome:
    """A round of load for each of these, in which somebody dies."""
    chance, lake = Random(seed), folder / "lake"
    kills: Counter[str] = Counter()
    with _cluster(folder / "spark", workers) as cluster, start_gateway(folder / "log", **ALONE) as gateway:
        flow, routed = Messages(gateway.url, seed, rounds), Routed(gateway.url, seed, rounds)
        with _driver(lambda name: Jobs(cluster, gateway.url, lake, folder / name, names)) as drivers:
            for kind in kinds:
                flow.go_on()
                routed.go_on()
                drivers.now.wait_until_said(READY)
                threading.Event().wait(chance.uniform(0, 5))
                _kill(kind, drivers, cluster, chance)
                kills[kind] += 1
                drivers.now.wait_until_said(READY)
            flow.stop()
            routed.stop()
            wait_until_compacted(gateway.url, drivers.now.is_alive)
            drivers.now.process.terminate()
            findings = [] if drivers.now.process.wait(WAIT_S_MAX) == 0 else [drivers.now.said()]
    return Outcome(kills, len(flow.produced), findings + _look(lake, flow, routed))


@contextlib.contextmanager
def _cluster(folder: Path, workers: int) -> Generator[SparkCluster]:
    """One whose JVMs compile quickly: all of them inherit this process's environment, executors by way of a worker."""
    before = os.environ.get(JAVA_OPTIONS)
    os.environ[JAVA_OPTIONS] = QUICK_SPARK[JAVA_OPTIONS]
    try:
        with start_spark_cluster(folder, workers) as cluster:
            yield cluster
    finally:
        os.environ.pop(JAVA_OPTIONS)
        if before is not None:
            os.environ[JAVA_OPTIONS] = before


class _Drivers:
    """The one that writes, and how another one is made."""

    def __init__(self, make: Callable[[str], Jobs]) -> None:
        self._make, self._count = make, 0
        self.all: list[Jobs] = []
        self.now = self.begun()

    def begun(self) -> Jobs:
        self._count += 1
        jobs = self._make(f"jobs-{self._count}.log")
        self.all.append(jobs)
        return jobs


@contextlib.contextmanager
def _driver(make: Callable[[str], Jobs]) -> Generator[_Drivers]:
    drivers = _Drivers(make)
    try:
        yield drivers
    finally:
        for each in drivers.all:
            each.kill()


def _kill(kind: str, drivers: _Drivers, cluster: SparkCluster, chance: Random) -> None:
    if kind == EXECUTOR:
        wait(lambda: bool(cluster.executors()))
        os.kill(chance.choice(cluster.executors()), signal.SIGKILL)
        return
    if kind == DRIVER:
        drivers.now.kill()
        drivers.now = drivers.begun()
        return
    old, new = drivers.now, drivers.begun()
    old.process.send_signal(signal.SIGSTOP)
    new.wait_until_said(WAITS)
    old.process.send_signal(signal.SIGCONT)
    threading.Event().wait(chance.uniform(0, 3))
    assert READY not in new.said().encode(), "two drivers write"
    old.kill()
    drivers.now = new


def _look(lake: Path, flow: Messages, routed: Routed) -> list[str]:
    findings: list[str] = []
    try:
        check_once_in_each_table(lake, flow.produced)
    except AssertionError as error:
        findings.append(str(error))
    if rows_of(lake, "scheduled", ["message_id", "state"]) != sorted(routed.scheduled.items()):
        findings.append("what was delayed isn't delivered or recalled as it was sent")
    return findings


def wait(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + WAIT_S_MAX
    while not condition():
        assert time.monotonic() < end_s, "nothing comes of it"
        threading.Event().wait(0.1)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.reliability.cluster", description=__doc__)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=Random().randrange(1_000_000))
    chosen = parser.parse_args(arguments)
    chance, begun_s = Random(chosen.seed), time.monotonic()
    kinds = [chance.choice(KINDS) for _ in range(chosen.kills)]
    with tempfile.TemporaryDirectory(prefix="lakemq-cluster-") as folder:
        done = run(Path(folder), kinds, chosen.seed)
    for finding in done.findings:
        sys.stdout.write(f"{finding}\n")
    what = f"{dict(done.kills)} killed, {done.messages} messages, {len(done.findings)} findings"
    sys.stdout.write(f"seed {chosen.seed}: {what}\n")
    counts: dict[str, Any] = {"kills": len(kinds), "messages": done.messages}
    append("kills on a cluster", chosen.seed, time.monotonic() - begun_s, counts, done.findings)
    return 1 if done.findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
