"""What the tests of followers have in common."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx
import pytest

from lakemq.gateway.fleet.follower import Follower
from lakemq.testing import GatewayProcess, start_gateway
from tests.gateway.http_client import connect
from tests.gateway.routing.asking import wait_until

SMALL = {"storage__segment_bytes": 1024 * 1024, "storage__compression": "none", "storage__disk_high_ratio": 1.0}
"""Segments are as small as they may be. How full the machine's disk is does not matter."""


def start_follower(data_dir: Path, primary: str, **options: Any) -> GatewayProcess:
    """Start a follower of the primary at that address."""
    return start_gateway(data_dir, broker__replica=1, fleet__primary=primary, **SMALL, **options)


class Pair(NamedTuple):
    """A primary and its follower, both running."""

    primary: httpx.Client
    follower: httpx.Client
    address: str
    """The primary's."""
    process: GatewayProcess
    """The follower's."""


@contextmanager
def start_pair(directory: Path) -> Generator[Pair]:
    """Both, in folders there; nothing is in them yet."""
    with (
        start_gateway(directory / "primary", **SMALL) as primary,
        start_follower(directory / "follower", primary.url) as follower,
        connect(primary) as leads,
        connect(follower) as follows,
    ):
        yield Pair(leads, follows, primary.url, follower)


@contextmanager
def stopped(process: GatewayProcess) -> Generator[None]:
    """It stands still meanwhile, and answers nobody."""
    os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process.pid, signal.SIGCONT)


def broker_of(http: httpx.Client) -> dict[str, Any]:
    """What a broker says of itself."""
    response = http.get("/v1/broker")
    assert response.status_code == 200, response.text
    return response.json()


def degraded(http: httpx.Client) -> str:
    """What is wrong with it; but for its clock, which after a slow start is far ahead of the last message."""
    response = http.get("/readyz")
    assert response.status_code == 200, response.text
    return "\n".join(each for each in response.json()["degraded"] if not each.startswith("the clock has jumped"))


def nothing() -> None:
    """Nothing waits to go on."""


async def leave(follower: Follower, go_on: Callable[[], None] = nothing) -> None:
    """Have a follower in this process follow no more: the question under way is answered to nobody, and leaves no
    connection open. `go_on` is called once it is closed."""
    await follower.close()
    go_on()
    for thread in threading.enumerate():
        if thread.name == "follower":
            await asyncio.to_thread(thread.join)
    port = urlsplit(follower.describe()["primary"] or "").port
    found = (each for each in gc.get_objects() if issubclass(type(each), HTTPConnection))
    assert [each for each in found if each.port == port and each.sock is not None] == []


@contextmanager
def starting_later(name: str) -> Generator[None]:
    """The first two times that a thread of that name is to be started in this process, there is none to be had."""
    errors: list[BaseException] = [RuntimeError("can't start new thread"), MemoryError()]
    start = threading.Thread.start

    def starts_later(thread: threading.Thread) -> None:
        if thread.name == name and errors:
            raise errors.pop(0)
        start(thread)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(threading.Thread, "start", starts_later)
        yield
    assert not errors


def wait_for(follower: httpx.Client, primary: httpx.Client) -> int:
    """Wait until the follower has all that the primary has now; returns the primary's end."""
    end = broker_of(primary)["max_position"]
    wait_until(lambda: broker_of(follower)["max_position"] >= end)
    return end


def frames_of(http: httpx.Client) -> bytes:
    """All frames of its log, byte for byte."""
    begin, pages = broker_of(http)["min_position"], list[bytes]()
    while True:
        answer = http.get("/v1/log/frames", params={"from": begin})
        assert answer.status_code == 200, answer.text
        pages.append(answer.content)
        following = int(answer.headers["lakemq-next-position"])
        if following == begin:
            return b"".join(pages)
        begin = following
