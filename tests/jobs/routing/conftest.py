"""Routing queries on the session of the test run, against gateways of their own."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import httpx
from pyspark.sql import SparkSession

from lakemq.jobs.process.run import ROUTING
from lakemq.jobs.routing.query import RoutingQuery
from lakemq.jobs.routing.stream import routing_session
from lakemq.settings import Lake, Routing, Settings
from tests.gateway.http_client import pull_all

WAIT_S_MAX = 120.0
"""A busy machine may take its time: how long is never what is tested."""


@contextmanager
def running(spark: SparkSession, url: str, lake: Path, *names: str) -> Generator[list[RoutingQuery]]:
    """These queries, one started after the other and each warm, and each in a session of its own as
    in a process of its own."""
    settings = Settings(lake=Lake(dir=lake), routing=Routing(tick_ms=100))
    rules = [rule for name in names for rule in ROUTING[name]]
    queries = [RoutingQuery(routing_session(spark), settings, rule, url) for rule in rules]
    try:
        for query in queries:
            stream = query.start()
            wait_until(lambda query=query, stream=stream: query.batches > 0 or not stream.isActive)
        assert [query.failure() for query in queries] == [None] * len(queries)
        yield queries
        assert [query.failure() for query in queries] == [None] * len(queries)
    finally:
        for query in queries:
            query.stop()


def wait_until(done: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S_MAX
    while not done():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.05)


def bodies(http: httpx.Client, topic: str) -> list[str]:
    """What can be pulled from the topic, sorted; nothing where there is no such topic."""
    if http.get(f"/v1/topics/{topic}").status_code == 404:
        return []
    return sorted(message["body"] for message in pull_all(http, topic))
