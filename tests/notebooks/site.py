"""A broker, its lake, and the session that notebooks find, as users have it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import nbformat
from pyspark.sql import SparkSession

from lakemq.jobs.lake.query import LakeQuery
from lakemq.jobs.notebook.execute import execute
from lakemq.jobs.notebook.to_jupyter import read_notebook
from lakemq.jobs.session.connect import server_of
from lakemq.jobs.session.discovery import announce, withdraw
from lakemq.jobs.sql.live import LiveViews
from lakemq.jobs.tables.driver import Driver
from lakemq.settings import Lake, Settings
from lakemq.testing import start_gateway
from tests.gateway.http_client import connect, put_topic
from tests.jobs.empty_lake import put_tables
from tests.jobs.lake_checks import wait_until_compacted
from tests.jobs.streams import LakeRun

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
CELL_S_MAX = 300


@dataclass(frozen=True)
class Site:
    """Where notebooks run."""

    settings: Settings
    broker_url: str

    def run(self, path: Path, cell_s_max: int = CELL_S_MAX) -> nbformat.NotebookNode:
        """The notebook of that file, with its outputs."""
        notebook = read_notebook(path)
        self.execute(notebook, path.parent, cell_s_max)
        return notebook

    def execute(self, notebook: nbformat.NotebookNode, folder: Path, cell_s_max: int = CELL_S_MAX) -> None:
        execute(notebook, self.settings, self.broker_url, folder=folder, cell_s_max=cell_s_max)


@contextmanager
def open_site(spark: SparkSession, lake: Path, log: Path) -> Generator[Site]:
    """One with an empty broker and lake, while it is open."""
    put_tables(spark, lake)
    settings = Settings(lake=Lake(dir=lake, trigger_ms=2_000))
    with start_gateway(log) as gateway:
        views = LiveViews(spark, lake, lambda: gateway.url)
        run = LakeRun(lambda: LakeQuery(spark, settings, gateway.url, views, driver=Driver(spark, settings.lake)))
        with connect(gateway) as http:
            put_topic(http, "of-nobody")
            http.delete("/v1/topics/of-nobody").raise_for_status()
        wait_until_compacted(gateway.url, run.is_alive)  # it has begun, and goes on from here
        announce(lake, server_of(spark, settings))
        yield Site(settings, gateway.url)
        withdraw(lake)
        run.stop()
        assert run.query.failure() is None
