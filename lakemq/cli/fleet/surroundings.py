"""What brokers and jobs share: the store that the lake is in, and the Spark cluster that the jobs run on.

Each says which settings brokers and jobs have by it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from lakemq.cli.fleet.foreign import foreign
from lakemq.cli.fleet.http import answer_of
from lakemq.cli.fleet.processes import Process
from lakemq.cli.options import url_of
from lakemq.cli.up import take_port
from lakemq.settings import Lake
from lakemq.testing import spark_cluster

Sections = Mapping[str, Mapping[str, str | int | bool]]
"""Sections of settings, and what is in them, by their names."""

WORKERS = 2
_REGISTERED = b"Successfully registered with master"


class LakeStore:
    """A store in memory that speaks S3, with the lake in one of its buckets."""

    says = "a bucket of an S3 store in memory"

    def __init__(self, root: Path, host: str, *, keep: bool) -> None:
        port = take_port(host, 0)
        self.url = url_of(host, port)
        self._work_dir = root.absolute() / "lake-work"
        launch = foreign(sys.executable, "-m", "lakemq.testing.object_store", "--port", str(port))
        self.process = Process("the S3 store", launch, root / "s3.log", keep=keep)

    @property
    def settings(self) -> Sections:
        """For brokers and jobs. The store asks nobody for a key."""
        storage = {"endpoint": self.url, "allow_http": True, "access_key_id": "fleet", "secret_access_key": "fleet"}
        return {"lake": {"dir": "s3://fleet/lake", "work_dir": str(self._work_dir)}, "lake.storage": storage}

    @property
    def place(self) -> Path:
        """Where the lake is, as the settings have it."""
        lake, storage = self.settings.values()
        return Lake.model_validate({**lake, "storage": storage}).dir

    def is_ready(self) -> bool:
        """Whether it answers."""
        return answer_of(self.url, "/fleet") != b""


class Spark:
    """A standalone cluster: a master, and workers of one core each."""

    says = f"on a standalone cluster of {WORKERS} workers"

    def __init__(self, root: Path, host: str, *, keep: bool) -> None:
        port = take_port(host, 0)
        self.master = f"spark://{host}:{port}"
        own, folder = spark_cluster.environment(), root / "spark"
        folder.mkdir(parents=True)
        self._conf = spark_cluster.make_secret(folder)
        launch = foreign(*spark_cluster.master_command(host, port, folder), environment=own)
        self._master = Process("Spark's master", launch, root / "spark-master.log", keep=keep)
        self._workers = [
            Process(
                f"Spark's worker {number}",
                foreign(*spark_cluster.worker_command(host, self.master, folder, number), environment=own),
                root / f"spark-worker-{number}.log",
                keep=keep,
            )
            for number in range(WORKERS)
        ]

    @property
    def settings(self) -> Sections:
        """For the jobs."""
        return {"spark": {"master": self.master}, "spark.conf": self._conf}

    @property
    def processes(self) -> list[Process]:
        return [self._master, *self._workers]

    def is_ready(self) -> bool:
        """Whether all workers have found the master."""
        return all(each.log.exists() and _REGISTERED in each.log.read_bytes() for each in self._workers)
