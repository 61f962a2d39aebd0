"""Routing queries on the session of the test run, against gateways of their own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest
from pyspark.sql import SparkSession

from lakemq.jobs.process.broker_watch import BrokerWatch
from lakemq.jobs.process.keep_running import keep_running
from lakemq.jobs.routing.query import RoutingQuery
from lakemq.jobs.routing.session import routing_session
from lakemq.settings import Lake, Routing, Settings
from lakemq.traces.batches import NO_BATCHES, BatchSpans
from tests.gateway.http_client import pull_all
from tests.jobs.streams import begun

WAIT_S_MAX = 300.0
"""A busy machine may take its time: how long is never what is tested."""


@contextmanager
def running(
    spark: SparkSession, url: str, lake: Path, *names: str, spans: BatchSpans = NO_BATCHES
) -> Generator[list[RoutingQuery]]:
    """A query for each of these jobs (`"retry delay"`: one for both), one started after the other and each warm, and
    each in a session of its own as in a process of its own."""
    settings = Settings(lake=Lake(dir=lake), routing=Routing(tick_ms=100))
    queries: list[RoutingQuery] = []

    def begin(jobs: list[str]) -> None:
        query = RoutingQuery(routing_session(spark), settings, jobs, url, spans)
        queries.append(query)
        stream = query.start()
        wait_until(lambda: query.batches > 0 or not stream.isActive)
        if not query.batches:
            queries.remove(query)
            query.stop()
            raise query.failure() or stream.exception() or AssertionError("the stream has ended")

    try:
        for name in names:
            begun(partial(begin, name.split()))
        assert [query.failure() for query in queries] == [None] * len(queries)
        yield queries
        assert [query.failure() for query in queries] == [None] * len(queries)
    finally:
        for query in queries:
            query.stop()


@contextmanager
def kept_running(spark: SparkSession, url: str, lake: Path, *jobs: str) -> Generator[None]:
    """The query of these jobs as a process runs it: a run that ends is followed by another."""
    settings = Settings(lake=Lake(dir=lake), routing=Routing(tick_ms=100))
    stop = threading.Event()
    watch = BrokerWatch(url, stop)
    watch.start()
    new_run = partial(RoutingQuery, routing_session(spark), settings, jobs)
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(1) as threads:
        patch.setattr("lakemq.jobs.process.keep_running._PAUSE_S_MAX", 1.0)
        ended = threads.submit(keep_running, "wheel", new_run, watch, stop, threading.Lock(), batches_until_ready=1)
        try:
            yield
            assert not ended.done()
        finally:
            stop.set()
    ended.result()


def wait_until(done: Callable[[], bool]) -> None:
    """Looks for a third of the time at most: a look is some requests, and takes processor time from the queries."""
    end = time.monotonic() + WAIT_S_MAX
    while True:
        looked_s = time.monotonic()
        if done():
            return
        assert time.monotonic() < end, "it did not come"
        time.sleep(min(max(0.05, 2 * (time.monotonic() - looked_s)), 1.0))


def bodies(http: httpx.Client, topic: str) -> list[str]:
    """What can be pulled from the topic, sorted; nothing where there is no such topic."""
    if http.get(f"/v1/topics/{topic}").status_code == 404:
        return []
    return sorted(message["body"] for message in pull_all(http, topic))
