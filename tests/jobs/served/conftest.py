"""One gateway, lake and server for all tests here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from lakemq.jobs.served.server import SqlServer
from lakemq.jobs.sql.live import LiveViews
from lakemq.settings import SqlHttp
from lakemq.testing import gateway_process, start_gateway
from tests.jobs.empty_lake import put_tables
from tests.jobs.served.scene import Scene, fill, make_users

PATIENT = "tests.jobs.served.patient_gateway"


@pytest.fixture(scope="session")
def kept(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Scene, LiveViews]]:
    """For the whole run: modules come in any order, others between them."""
    folder = tmp_path_factory.mktemp("served")
    options = {"routing__grace_ms": -1, "auth__audit": "true"}
    with start_gateway(folder / "log", 0, PATIENT, gateway_process.spawn_by_default, **options) as gateway:
        put_tables(spark, folder / "lake")
        tokens = make_users(gateway, folder / "log")
        views = fill(spark, gateway, folder / "lake")
        server = SqlServer(spark, lambda: gateway.url, SqlHttp())
        server.start()
        try:
            made = Scene(gateway, server, tokens, folder / "lake")
            made.rows("SELECT 1", "olga")  # so the jobs look for their own token here, and not in a test's environment
            yield made, views
        finally:
            server.stop()


@pytest.fixture(scope="package")
def scene(kept: tuple[Scene, LiveViews]) -> Scene:
    """The session's tables are those of its lake, and no longer of other tests'."""
    made, views = kept
    views.register()
    return made
