"""One site for all notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.notebooks.site import Site, open_site

TIMEOUT_S = 900
"""A cold JVM on a busy machine takes minutes, and whichever test is first waits for it."""


@pytest.fixture(scope="module")
def site(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with open_site(spark, tmp_path_factory.mktemp("lake"), tmp_path_factory.mktemp("log")) as site:
        yield site


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and "site" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))
