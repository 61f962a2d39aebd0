"""A standalone Spark cluster on this machine: a master and workers, each a process of its own, on loopback. They and
the drivers have a secret in common."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import time
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from threading import Event

from lakemq.model.errors import LakemqError
from lakemq.storage.disk.privacy import write_private

HOST = "127.0.0.1"
START_S_MAX = 300.0

_CONF = "spark.conf"
_SECRET = "spark.authenticate.secret"  # noqa: S105 (a name of Spark's)

_MASTER = re.compile(rb"Starting Spark master at (spark://\S+)")
_WORKER = re.compile(rb"Successfully registered with master")


class ClusterNotStarted(LakemqError):
    """The master or a worker ended, or said nothing for too long. The detail has what it said."""

    code = "cluster_not_started"


class SparkCluster:
    """`master`: what `spark.master` is. `conf`: what has to be in `spark.conf`. `workers`: their processes; each
    executor is a child of one."""

    def __init__(
        self, master: str, conf: Mapping[str, str], folder: Path, workers: list[subprocess.Popen[bytes]]
    ) -> None:
        self.master, self.conf, self.folder, self.workers = master, conf, folder, workers

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
    own, conf = environment(java_options), make_secret(folder)
    with ExitStack() as started:
        process = started.enter_context(_process(master_command(HOST, 0, folder), folder / "master.log", own))
        master = _said(process, folder / "master.log", _MASTER)[1].decode()
        running: list[subprocess.Popen[bytes]] = []
        for number in range(workers):
            command = worker_command(HOST, master, folder, number, cores, memory)
            running.append(started.enter_context(_process(command, folder / f"worker-{number}.log", own)))
        for number, worker in enumerate(running):
            _said(worker, folder / f"worker-{number}.log", _WORKER)
        yield SparkCluster(master, conf, folder, running)


def make_secret(folder: Path) -> dict[str, str]:
    """A new secret, in a file that only this user reads, for the commands below; returns what drivers need in
    `spark.conf`. Whoever has it can do what the cluster can."""
    secret = secrets.token_urlsafe(32)
    write_private(folder / _CONF, f"spark.authenticate true\n{_SECRET} {secret}\n")
    return {_SECRET: secret}


def master_command(host: str, port: int, folder: Path) -> list[str]:
    """Of the master, with its program first; port 0: any that is free. The cluster's secret is in the folder."""
    return _command("master.Master", folder, "--host", host, "--port", str(port))


def worker_command(host: str, master: str, folder: Path, number: int, cores: int = 1, memory: str = "1g") -> list[str]:
    """Of a worker with so much for executors, whose files are in the folder too."""
    own = ["--host", host, "--cores", str(cores), "--memory", memory]
    return _command("worker.Worker", folder, *own, "--work-dir", str(folder / f"work-{number}"), master)


def environment(java_options: str = "-XX:+UseSerialGC") -> dict[str, str]:
    """What theirs has beside this process's, of master and worker themselves: an executor's heap is what the driver
    asks for."""
    own = {"SPARK_DAEMON_JAVA_OPTS": java_options, "SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_IP": HOST}
    return own | {"SPARK_HOME": str(_spark_home())}


def _command(name: str, folder: Path, *arguments: str) -> list[str]:
    program = str(_spark_home() / "bin" / "spark-class")
    conf = str(folder.absolute() / _CONF)
    return [program, f"org.apache.spark.deploy.{name}", "--webui-port", "0", "--properties-file", conf, *arguments]


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
