from __future__ import annotations

import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event
from time import monotonic, sleep
from typing import Any

import httpx
import pyarrow as pa
import pytest

from lakemq.testing import GatewayProcess, start_gateway
from lakemq.testing.server_process import spawn
from tests.gateway.http_client import (
    ARROW,
    TLS,
    Connection,
    connect,
    is_problem,
    pull_all,
    put_topic,
    waiting,
    write_arrow,
)

QUEUES = 4


def produce_until_stopped(gateway: GatewayProcess, worker: int, begun: Event) -> list[str]:
    """Produce in every form until the gateway has gone; returns the bodies that were acknowledged."""
    acknowledged: list[str] = []
    with connect(gateway) as http:
        number = 0
        while True:
            number += 1
            bodies = [f"{worker}-{number}-{part}" for part in range(1 + worker % 3)]
            path = "/v1/topics/t/messages"
            try:
                if worker % 3 == 0:
                    response = http.post(path, content=bodies[0])
                elif worker % 3 == 1:
                    response = http.post(f"{path}?ack=sync", json={"messages": [{"body": body} for body in bodies]})
                else:
                    columns = {"body": pa.array([body.encode() for body in bodies], pa.binary())}
                    response = http.post(path, content=write_arrow(columns), headers={"Content-Type": ARROW})
            except httpx.TransportError:
                return acknowledged
            assert response.status_code == 200, response.text
            acknowledged += bodies
            begun.set()


def run_until(gateway: GatewayProcess, end: Callable[[], Any]) -> list[str]:
    """Producers, until `end` has ended the gateway; returns all bodies that were acknowledged."""
    begun = [Event() for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        producers = [pool.submit(produce_until_stopped, gateway, worker, begun[worker]) for worker in range(6)]
        for event in begun:
            assert event.wait(60)
        end()
        return [body for producer in producers for body in producer.result()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_loses_nothing_acknowledged_and_exits_with_0(tmp_path: Path, number: signal.Signals) -> None:
    gateway = start_gateway(tmp_path)

    def stop() -> None:
        os.kill(gateway.pid, number)
        assert gateway.stop() == 0

    acknowledged = run_until(gateway, stop)
    assert not [line for line in gateway.log if "Traceback" in line]
    with start_gateway(tmp_path) as gateway, connect(gateway) as http:
        stored = [message["body"] for message in pull_all(http, "t")]
        assert not any("torn" in line for line in gateway.log)
    assert set(acknowledged) <= set(stored)
    assert len(stored) == len(set(stored))


def test_a_terminal_that_closes_stops_it_in_order(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # these tests may run under nohup
    try:
        gateway = start_gateway(tmp_path, spawn=spawn)
    finally:
        signal.signal(signal.SIGHUP, before)
    os.kill(gateway.pid, signal.SIGHUP)
    assert gateway.stop() == 0


def test_a_kill_loses_nothing_acknowledged(tmp_path: Path) -> None:
    gateway = start_gateway(tmp_path, storage__snapshot_bytes=1024)
    acknowledged = run_until(gateway, gateway.kill)
    with start_gateway(tmp_path) as gateway, connect(gateway) as http:
        stored = [message["body"] for message in pull_all(http, "t")]
    assert set(acknowledged) <= set(stored)
    assert len(stored) == len(set(stored))


def poll(gateway: GatewayProcess, topic: str, queue_id: int) -> httpx.Response:
    """Wait for a message, on a connection of its own."""
    path = f"/v1/topics/{topic}/queues/{queue_id}/messages?offset=0&wait_ms=60000"
    return httpx.get(gateway.url + path, timeout=120, trust_env=False, verify=TLS)


def test_who_waits_is_answered_when_the_gateway_stops(tmp_path: Path) -> None:
    gateway = start_gateway(tmp_path)
    with connect(gateway) as http, ThreadPoolExecutor(40) as pool:
        put_topic(http, "t", QUEUES)
        polls = [pool.submit(poll, gateway, "t", number % QUEUES) for number in range(40)]
        while waiting(http) < 40:
            pass
        assert gateway.stop() == 0
        answers = [each.result() for each in polls]
    assert {answer.status_code for answer in answers} == {200}
    assert {answer.json()["status"] for answer in answers} == {"no_new_message"}


def test_a_request_that_never_ends_does_not_keep_the_gateway(tmp_path: Path) -> None:
    gateway = start_gateway(tmp_path, gateway__stop_grace_ms=1_000)
    with Connection(gateway) as connection:
        connection.send(b"POST /v1/topics/t/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf")
        assert gateway.stop() == 0
        answer = connection.answer()
        assert answer is None or answer.status == 503


def until(condition: Callable[[], bool]) -> None:
    end_s = monotonic() + 60
    while not condition():
        assert monotonic() < end_s
        sleep(0.01)


def readiness(http: httpx.Client) -> int:
    return http.get("/readyz").status_code


def test_from_a_stop_on_nobody_is_told_that_it_is_ready_and_the_same_signal_twice_is_one(tmp_path: Path) -> None:
    gateway = start_gateway(tmp_path)
    with connect(gateway) as http, ThreadPoolExecutor(100) as pool:
        put_topic(http, "t", QUEUES)
        polls = [pool.submit(poll, gateway, "t", number % QUEUES) for number in range(100)]
        while waiting(http) < 100:
            pass
        # Both come at once, however slow this process is.
        for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGHUP, signal.SIGCONT):
            os.kill(gateway.pid, number)
        assert {each.result().json()["status"] for each in polls} == {"no_new_message"}
        with suppress(httpx.TransportError):  # nobody listens any more
            assert is_problem(httpx.get(f"{gateway.url}/readyz", timeout=60), 503, "store_unwritable")
        assert gateway.stop() == 0
    assert not [line for line in gateway.log if "Traceback" in line]


def end_at_once(gateway: GatewayProcess) -> None:
    """Signals until it is over: the first of them may be taken for the one before."""

    def is_over() -> bool:
        if gateway.poll() is None:
            os.kill(gateway.pid, signal.SIGTERM)
        return gateway.poll() is not None

    until(is_over)
    assert gateway.stop() == 0
    assert not [line for line in gateway.log if "Traceback" in line]


def test_it_says_first_that_it_is_not_ready_and_serves_on_and_a_second_signal_ends_that(tmp_path: Path) -> None:
    gateway = start_gateway(tmp_path, gateway__drain_ms=3_600_000)
    with connect(gateway) as http, ThreadPoolExecutor(1) as pool:
        put_topic(http, "t", QUEUES)
        put_topic(http, "empty")
        polling = pool.submit(poll, gateway, "empty", 0)
        while waiting(http) < 1:
            pass
        os.kill(gateway.pid, signal.SIGTERM)
        until(lambda: readiness(http) == 503)
        assert is_problem(http.get("/readyz"), 503, "store_unwritable")
        assert http.get("/healthz").status_code == 200
        stored = httpx.post(f"{gateway.url}/v1/topics/t/messages", content=b"served on", timeout=60)  # a new connection
        assert stored.status_code == 200, stored.text
        assert not polling.done()
        end_at_once(gateway)
        assert polling.result().json()["status"] == "no_new_message"
    with start_gateway(tmp_path) as gateway, connect(gateway) as http:
        assert [message["body"] for message in pull_all(http, "t")] == ["served on"]


def test_a_second_signal_cuts_what_is_still_under_way(tmp_path: Path) -> None:
    """A request that never ends has an hour's grace here."""
    gateway = start_gateway(tmp_path, gateway__drain_ms=200, gateway__stop_grace_ms=3_600_000)
    with connect(gateway) as http, Connection(gateway) as half:
        half.send(b"POST /v1/topics/t/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf")
        http.get("/healthz")  # the half has come by then
        os.kill(gateway.pid, signal.SIGTERM)
        with suppress(httpx.TransportError):
            until(lambda: readiness(http) == 0)  # never: it ends as nobody listens any more
        end_at_once(gateway)
