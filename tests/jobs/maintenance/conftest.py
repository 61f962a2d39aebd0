"""A lake to look after."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakemq.testing import start_gateway
from tests.jobs.maintenance.scene import Scene


@pytest.fixture
def scene(spark: SparkSession, tmp_path: Path) -> Iterator[Scene]:
    with start_gateway(tmp_path / "log") as gateway:
        scene = Scene(spark, gateway, tmp_path / "lake")
        yield scene
        scene.stop()
