"""A lake to look after, one for the tests of a module: to make one costs as much as most of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from lakemq.testing import start_gateway
from tests.jobs.empty_lake import put_tables
from tests.jobs.maintenance.scene import Scene


@pytest.fixture(scope="module")
def scene(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("maintenance")
    with start_gateway(folder / "log", routing__grace_ms=-1) as gateway:
        put_tables(spark, folder / "lake")
        scene = Scene(spark, gateway, folder / "lake")
        yield scene
        scene.stop()
