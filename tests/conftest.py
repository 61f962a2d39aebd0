"""What tests of several rooms share: the one SparkSession of the test run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from lakemq.settings import Settings, Spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A real session; a process has one, so whatever a test registers in it needs a name of its own."""
    from lakemq.jobs.session import start_session

    warehouse = tmp_path_factory.mktemp("warehouse")
    conf = {"spark.sql.warehouse.dir": str(warehouse)}
    settings = Settings(spark=Spark(conf=conf, driver_memory="1g"))
    session = start_session(settings, "lakemq tests", short_lived=True)
    yield session
    session.stop()
