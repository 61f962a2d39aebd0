"""No descriptor is left: what needs one is refused for the moment, and nothing is a 500."""

from __future__ import annotations

import random
import resource
from pathlib import Path
from typing import Any

from lakemq.testing import start_gateway
from tests.gateway.http_client import connect, is_problem, produce, put_topic

OPTIONS: dict[str, Any] = {"storage__segment_bytes": 1024 * 1024, "storage__cache_bytes": 0}


def test_a_segment_that_cannot_be_opened_is_busy_and_read_later(tmp_path: Path) -> None:
    with start_gateway(tmp_path, **OPTIONS) as gateway, connect(gateway) as http:
        put_topic(http, "t", 1)
        for number in range(8):
            produce(http, "t", f"{number}." + random.randbytes(600_000).hex())
    for index in (tmp_path / "commitlog").glob("*.idx"):
        index.unlink()
    with start_gateway(tmp_path, **OPTIONS) as gateway, connect(gateway) as http:
        path = "/v1/topics/t/queues/0/messages"
        http.get("/healthz")
        limits = resource.prlimit(gateway.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(gateway.pid, resource.RLIMIT_NOFILE, (3, limits[1]))
        assert is_problem(http.get(path, params={"offset": 0}), 503, "busy")
        resource.prlimit(gateway.pid, resource.RLIMIT_NOFILE, limits)
        assert http.get(path, params={"offset": 0}).json()["messages"][0]["body"].startswith("0.")
        assert not [line for line in gateway.log if "Traceback" in line]
