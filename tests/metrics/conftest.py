from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from lakemq.testing import start_gateway
from tests.gateway.http_client import connect


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A broker that decides soon what nobody else does, and tells two topics and two groups by name."""
    limits = {"gateway__metrics_topics_max": 2, "gateway__metrics_groups_max": 2, "routing__grace_ms": 100}
    with start_gateway(tmp_path_factory.mktemp("metrics"), **limits) as gateway, connect(gateway) as http:
        yield http
