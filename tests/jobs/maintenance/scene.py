"""A lake that a query writes all the time, and what the tests of maintenance do with it."""

from __future__ import annotations

import uuid
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lakemq.jobs.lake.healing import Alone
from lakemq.jobs.lake.query import LakeQuery
from lakemq.jobs.maintenance.runner import Runner
from lakemq.jobs.maintenance.runs import Run
from lakemq.jobs.tables.driver import Driver
from lakemq.settings import Lake, Maintenance, Settings
from lakemq.testing import GatewayProcess
from tests.beside import Beside
from tests.jobs.changed_rows import append_rows, delete_rows, rows_having
from tests.jobs.conftest import produce_to
from tests.jobs.lake_checks import check_once_in_each_table, wait_until_compacted
from tests.jobs.streams import LakeRun

_LOSING = ("messages", "consume_queue", "message_index")


class Scene:
    """A gateway of its own, a lake that a query writes all the time, and all that was produced."""

    def __init__(self, spark: SparkSession, gateway: GatewayProcess, lake: Path) -> None:
        self.spark, self.gateway, self.lake = spark, gateway, lake
        self.settings = self.with_options()
        self.produced: set[tuple[Any, ...]] = set()
        self.start()

    def start(self, alone: Alone | None = None) -> None:
        """The query begins, or goes on."""
        self._query = LakeRun(
            lambda: LakeQuery(
                self.spark, self.settings, self.gateway.url, driver=Driver(self.spark, self.settings.lake), alone=alone
            )
        )

    def with_options(self, **options: Any) -> Settings:
        options = {"small_files_min": 2, "retry_pause_ms": 0} | options
        # The query merges no files by itself: tests change the tables by statements that don't wait for their turn.
        lake = Lake(dir=self.lake, trigger_ms=200, merge_files=64)
        return Settings(lake=lake, maintenance=Maintenance(**options))

    def produce(self, count: int, topic: str = "a") -> list[tuple[Any, ...]]:
        """What was produced, in the order of its positions."""
        keys = [uuid.uuid4().hex for _ in range(count)]
        messages = [{"body": key, "keys": [key], "tag": "T"} for key in keys]
        new: list[tuple[Any, ...]] = []
        for key, answer in zip(keys, produce_to(self.gateway.url, topic, messages), strict=True):
            place = (answer["queue_id"], answer["queue_offset"], answer["position"])
            new.append(("broker-a", topic, *place, key))
        self.produced.update(new)
        return sorted(new, key=lambda message: message[4])

    def compact(self) -> None:
        wait_until_compacted(self.gateway.url, self._query.is_alive)

    def runner(self, **options: Any) -> Runner:
        driver = Driver(self.spark, self.settings.lake)
        return Runner(self.spark, self.with_options(**options), lambda: self.gateway.url, driver=driver)

    def findings(self, brokers: str | None = None) -> list[dict[str, Any]]:
        """What `verify` finds, with brokers at these addresses."""
        driver = Driver(self.spark, self.settings.lake)
        runner = Runner(self.spark, self.settings, lambda: brokers or self.gateway.url, driver=driver)
        return runner.run("verify", "command").detail["findings"]

    def run(self, name: str, parameters: dict[str, Any] | None = None, **options: Any) -> Run:
        return self.runner(**options).run(name, "command", parameters)

    @contextmanager
    def without(self, position: int) -> Generator[None]:
        """Within it the three tables have no row of that position."""
        held = {table: rows_having(table, position=position) for table in (self.lake / name for name in _LOSING)}
        for table in held:
            delete_rows(table, position=position)
        yield
        for table, rows in held.items():
            append_rows(table, rows)

    def check(self) -> None:
        self.compact()
        check_once_in_each_table(self.lake, self.produced)

    def files(self, table: str) -> set[str]:
        return set(DeltaTable(str(self.lake / table)).file_uris())

    def stop(self) -> None:
        assert self._query.is_alive(), "the lake query has ended"
        self._query.stop()


class Load(Beside):
    """Produces and has the query commit, all the time."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        super().__init__()

    def _run(self) -> None:
        while not self._ends.wait(4):
            self._scene.produce(5)
