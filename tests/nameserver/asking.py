"""What the tests of the name server have in common."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import httpx

from lakemq.nameserver.registration import Registration, Share
from lakemq.testing import NameServerProcess
from tests.gateway.http_client import TLS, WAIT_S
from tests.pauses import pause

NOWHERE = "http://192.0.2.1:8080"
"""An address that no machine has, and that no heartbeat comes from: nobody probes it."""


def wait_until(is_so: Callable[[], object]) -> None:
    """Look until it is so."""
    begun_s = time.monotonic()
    while not is_so():
        assert time.monotonic() < begun_s + WAIT_S, "it did not come"
        pause(begun_s)


def connect(server: NameServerProcess) -> httpx.Client:
    """A client of the name server that takes no proxy from the environment."""
    return httpx.Client(base_url=server.url, timeout=WAIT_S, trust_env=False, verify=TLS)


def told(*topics: str, queues: int = 4, **fields: Any) -> Registration:
    """What a replica says, with its topics."""
    said: dict[str, Any] = {
        **{"cluster": "default", "address": NOWHERE, "role": "primary", "epoch": 1, "log_id": "l", "permission": "rw"},
        **fields,
    }
    return Registration(**said, topics={topic: Share(queues, "rw") for topic in topics})


def body_of(registration: Registration) -> dict[str, Any]:
    """It, as it is sent."""
    topics = [{"topic": name, **share._asdict()} for name, share in registration.topics.items()]
    return {**registration._asdict(), "topics": topics}


def path_of(broker: str, replica: int = 0) -> str:
    """Where a replica says it."""
    return f"/v1/brokers/{broker}/replicas/{replica}"


def hear(http: httpx.Client, broker: str, *topics: str, replica: int = 0, **fields: Any) -> None:
    """A heartbeat."""
    answer = http.put(path_of(broker, replica), json=body_of(told(*topics, **fields)))
    assert answer.status_code == 200, answer.text


def routes(http: httpx.Client, **query: Any) -> dict[str, Any]:
    """The routes."""
    answer = http.get("/v1/routes", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def metric(http: httpx.Client, name: str) -> int:
    """One of its numbers."""
    lines = http.get("/metrics").text.splitlines()
    (line,) = [each for each in lines if each.startswith(f"lakemq_nameserver_{name} ")]
    return int(float(line.split()[1]))


def hold(http: httpx.Client, pool: ThreadPoolExecutor, others: int = 0, **query: Any) -> Future[dict[str, Any]]:
    """Watch routes from their current version on, beside so many others of this test; returns when the name server
    holds the request."""
    wait_until(lambda: metric(http, "watchers") <= others)  # those of tests before are gone
    version = routes(http, **query)["version"]
    future = pool.submit(routes, http, version=version, wait_ms=60_000, **query)
    wait_until(lambda: metric(http, "watchers") > others or future.done())
    return future
