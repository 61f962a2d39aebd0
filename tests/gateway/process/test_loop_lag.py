"""The event loop's lag, as `GET /metrics` tells it."""

from __future__ import annotations

import inspect
import os
import re
import signal
import time
from pathlib import Path

import httpx
import uvicorn

from lakemq.gateway.work.loop_lag import BOUNDS_S, LoopLag
from lakemq.testing import GatewayProcess, start_gateway
from lakemq.web.server import TICK_S
from tests.gateway.http_client import connect


def seen(http: httpx.Client) -> tuple[dict[str, float], float]:
    """How often it was at most so late, by bound, and the sum."""
    text = http.get("/metrics").text
    buckets = re.findall(r'^lakemq_loop_lag_seconds_bucket{le="(.+)"} (\S+)$', text, re.MULTILINE)
    (total,) = re.findall(r"^lakemq_loop_lag_seconds_sum (\S+)$", text, re.MULTILINE)
    return {bound: float(count) for bound, count in buckets}, float(total)


def test_a_loop_that_was_held_up_is_seen(tmp_path: Path) -> None:
    with start_gateway(tmp_path) as gateway, connect(gateway) as http:
        wait_for_ticks(http, 2)
        before, total = seen(http)
        stop(gateway)
        wait_for_ticks(http, before["+Inf"] + 2)
        after, grown = seen(http)
    late = {bound: after["+Inf"] - after[bound] - before["+Inf"] + before[bound] for bound in after}
    assert late["0.25"] >= 1
    assert grown - total >= 0.3


def stop(gateway: GatewayProcess) -> None:
    """For half a second nothing goes on in it."""
    os.kill(gateway.pid, signal.SIGSTOP)
    time.sleep(0.5)
    os.kill(gateway.pid, signal.SIGCONT)


def wait_for_ticks(http: httpx.Client, count: float) -> None:
    while seen(http)[0]["+Inf"] < count:
        time.sleep(0.05)


def test_a_lag_is_counted_at_every_bound_from_it_on() -> None:
    lag = LoopLag()
    for late_s in (-0.1, 0.001, 0.03, 7.0):
        lag.note(late_s)
    counts = dict(lag.buckets())
    assert [counts[str(bound)] for bound in BOUNDS_S] == [2, 2, 2, 2, 2, 3, 3, 3, 3]
    assert counts["+Inf"] == 4
    assert abs(lag.total - 7.031) < 1e-9


def test_uvicorn_looks_as_often_as_we_believe() -> None:
    """The version is pinned; whoever moves it finds this."""
    assert f"sleep({TICK_S})" in inspect.getsource(uvicorn.Server.main_loop)
