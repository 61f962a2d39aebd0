"""A standalone Spark cluster on this machine: a master and workers, each a process of its own, on loopback."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from threading import Event

from lakemq.model.errors import LakemqError

HOST = "127.0.0.1"
START_S_MAX = 300.0

_MASTER = re.compile(rb"Starting Spark master at (spark://\S+)")
_WORKER = re.compile(rb"Successfully registered with master")


class ClusterNotStarted(LakemqError):
    """The master or a worker ended, or said nothing for too long. The detail has what it said."""

    code = "cluster_not_started"


class SparkCluster:
    """`master`: what `spark.master` is. `workers`: their processes; each executor is a child of one."""

    def __init__(self, master: str, folder: Path, workers: list[subprocess.Popen[bytes]]) -> None:
        self.master, self.folder, self.workers = master, folder, workers

    def executors(self) -> list[int]:
        """The processes of executors, by what the system says of the workers' children."""
        found: list[int] = []
        for worker in self.workers:
            children = Path(f"/proc/{worker.pid}/task/{worker.pid}/children").parent.parent
            for task in children.glob("*/children"):
                found += [int(pid) for pid in task.read_text(encoding="ascii").split()]
        return found


@contextmanager
def start_spark_cluster(
    folder: Path, workers: int = 2, cores: int = 1, memory: str = "1g", java_options: str = "-XX:+UseSerialGC"
) -> Generator[SparkCluster]:
    """Master and workers, each with so many cores and so much memory for executors, until the end of `with`; their
    logs and the executors' are in `folder`. Raises `ClusterNotStarted`."""
    folder.mkdir(parents=True, exist_ok=True)
    own = environment(java_options)
    with ExitStack() as started:
        process = started.enter_context(_process(master_command(HOST, 0), folder / "master.log", own))
        master = _said(process, folder / "master.log", _MASTER)[1].decode()
        running: list[subprocess.Popen[bytes]] = []
        for number in range(workers):
            command = worker_command(HOST, master, folder / f"work-{number}", cores, memory)
            running.append(started.enter_context(_process(command, folder / f"worker-{number}.log", own)))
        for number, worker in enumerate(running):
            _said(worker, folder / f"worker-{number}.log", _WORKER)
        yield SparkCluster(master, folder, running)


def master_command(host: str, port: int) -> list[str]:
    """Of the master, with its program first; port 0: any that is free."""
    return _command("master.Master", "--host", host, "--port", str(port), "--webui-port", "0")


def worker_command(host: str, master: str, folder: Path, cores: int = 1, memory: str = "1g") -> list[str]:
    """Of a worker with so much for executors, whose files are in the folder."""
    own = ["--host", host, "--webui-port", "0", "--cores", str(cores), "--memory", memory]
    return _command("worker.Worker", *own, "--work-dir", str(folder), master)


def environment(java_options: str = "-XX:+UseSerialGC") -> dict[str, str]:
    """What theirs has beside this process's, of master and worker themselves: an executor's heap is what the driver
    asks for."""
    own = {"SPARK_DAEMON_JAVA_OPTS": java_options, "SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_IP": HOST}
    return own | {"SPARK_HOME": str(_spark_home())}


def _command(name: str, *arguments: str) -> list[str]:
    return [str(_spark_home() / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]


@contextmanager
def _process(command: list[str], log: Path, own: Mapping[str, str]) -> Generator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env={**os.environ, **own})  # noqa: S603 (ours)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _spark_home() -> Path:
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise ClusterNotStarted("there is no pyspark")
    return Path(found.origin).parent


def _said(process: subprocess.Popen[bytes], log: Path, pattern: re.Pattern[bytes]) -> re.Match[bytes]:
    end_s = time.monotonic() + START_S_MAX
    waiting = Event()
    while (found := pattern.search(log.read_bytes())) is None:
        if process.poll() is not None or time.monotonic() > end_s:
            raise ClusterNotStarted(log.read_text(encoding="utf-8", errors="replace")[-2000:])
        waiting.wait(0.1)
    return found
