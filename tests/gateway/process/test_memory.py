"""What the gateway's memory is made of, and that it doesn't grow with what has been."""

from __future__ import annotations

import re
from pathlib import Path

import httpx

from lakemq.testing import GatewayProcess, start_gateway
from tests.gateway.http_client import connect, produce
from tests.gateway.routing.asking import wait_until

MIB = 2**20


def parts(http: httpx.Client) -> dict[str, int]:
    found = re.findall(r'^lakemq_memory_bytes\{part="(\w+)"\} (\S+)$', http.get("/metrics").text, re.MULTILINE)
    return {name: int(float(size)) for name, size in found}


def test_metrics_say_what_memory_is_made_of(gateway: GatewayProcess) -> None:
    with connect(gateway) as http:
        produce(http, "memory", *("x" * 100 for _ in range(10)))
        said = parts(http)
    assert set(said) >= {"index", "frames", "sealed_indexes", "recent_frames", "arrow", "resident"}
    assert 40 <= said["index"] + said["frames"] < said["resident"]


def test_large_blocks_that_are_free_are_given_back(tmp_path: Path) -> None:
    """Without a bound the C library keeps what a few large requests have left."""
    with start_gateway(tmp_path, storage__cache_bytes=0) as alone, connect(alone) as http:
        before = parts(http)
        if "malloc_free" not in before:
            return  # not glibc
        for count in (3, 5, 7, 9):
            produce(http, "large", *("x" * (3 * MIB) for _ in range(count)))
        wait_until(lambda: parts(http)["malloc"] < before["malloc"] + 24 * MIB, "the last request is still there")
        assert parts(http)["malloc_free"] < 60 * MIB, "it is 88 MiB without a bound, 0 to 28 with it"
