"""A gateway whose jobs are dead, or never were: what waits comes all the same, and it is told."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakemq.gateway.routing.jobs import ALIVE_MS
from lakemq.testing import GatewayProcess, start_gateway
from tests.gateway.http_client import connect, is_problem, produce, pull_all
from tests.gateway.routing.asking import begin, checks, halves_left, nack, now_ms, resolve, wait_until
from tests.gateway.timed import Timed
from tests.standstill import within

HOUR_MS = 3_600_000
SETTINGS: dict[str, Any] = {
    "routing__lead_ms": 0,
    "routing__grace_ms": 300,
    "transactions__timeout_ms": HOUR_MS,
    "transactions__check_interval_ms": HOUR_MS,
    "transactions__check_max": 2,
    "delay__levels": "100ms",
}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Timed]:
    """A gateway that anticipates nothing, and nobody who decides for it; no half is checked before an hour is over."""
    with Timed(tmp_path_factory.mktemp("alone"), **SETTINGS) as gateway:
        yield gateway


@pytest.fixture
def http(alone: Timed) -> httpx.Client:
    return alone.http


def bodies(http: httpx.Client, topic: str) -> list[str]:
    return sorted(message["body"] for message in pull_all(http, topic))


def first_checks(gateway: GatewayProcess) -> list[int]:
    """How often was asked, of the checks that come first."""
    with connect(gateway) as http:
        while not (found := checks(http, wait_ms=10_000)):
            pass
    return [each["check_times"] for each in found]


def test_without_any_job_all_that_waits_comes_to_its_end(alone: Timed, http: httpx.Client) -> None:
    sent = alone.now_ms()
    pool = ThreadPoolExecutor(1)
    asking = pool.submit(first_checks, alone.process)
    produce(http, "t", {"body": "delayed", "delay_ms": 200})
    committed, rolled_back, left = begin(http, "t", "committed", "rolled back", "left")
    assert resolve(http, committed, "commit").status_code == 200
    assert resolve(http, rolled_back, "rollback").status_code == 200
    (plain,) = produce(http, "u", "failed")
    nack(http, "g", {"message_id": plain["message_id"], "delay_level": 1})
    content = {"topic": "u", "invisible_ms": 200, "wait_ms": 0}
    (received,) = http.post("/v1/groups/h/receive", json=content).json()["messages"]
    wait_until(lambda: bodies(http, "t") == ["committed", "delayed"])
    (delayed,) = [message for message in pull_all(http, "t") if message["body"] == "delayed"]
    assert delayed["store_time_ms"] >= sent + 200
    wait_until(lambda: bodies(http, "%RETRY%g") == bodies(http, "%RETRY%h") == ["failed"])
    assert http.post("/v1/groups/h/acks", json={"receipts": [received["receipt"]]}).json()["receipts"] == [
        {"receipt": received["receipt"], "status": "receipt_expired"}
    ]
    alone.pass_ms(HOUR_MS)
    assert asking.result()[0] in (1, 2)
    pool.shutdown()
    alone.pass_ms(HOUR_MS)
    wait_until(lambda: halves_left(http, left) == 2)
    alone.pass_ms(HOUR_MS)
    wait_until(lambda: bodies(http, "RMQ_SYS_TRANS_CHECK_MAX_TIME") == ["left"])
    assert is_problem(resolve(http, left, "commit"), 409, "transaction_resolved")
    assert bodies(http, "t") == ["committed", "delayed"]
    metrics = http.get("/metrics").text
    for kind in ("delay", "transaction", "nack", "receipt"):
        (line,) = [
            each for each in metrics.splitlines() if each.startswith(f'lakemq_decided_overdue_total{{kind="{kind}"')
        ]
        assert float(line.split()[-1]) >= 1


def test_one_line_says_that_the_queries_are_late(tmp_path: Path) -> None:
    with start_gateway(tmp_path, **SETTINGS) as gateway, connect(gateway) as http:

        def have_come() -> bool:
            http.put("/v1/jobs", json={"jobs": [{"name": "delay"}]})  # it is alive, and decides nothing
            return http.get("/v1/topics/v").is_success and len(pull_all(http, "v")) == 10

        assert not have_come()
        produce(http, "v", *({"body": str(number), "delay_ms": 1 + 200 * number} for number in range(10)))
        wait_until(have_come)
    assert len([line for line in gateway.log if "the routing queries are late" in line]) == 1


def test_a_job_is_alive_as_long_as_it_is_heard_of(fresh_gateway: GatewayProcess) -> None:
    with connect(fresh_gateway) as http:
        check_a_job(http)


def check_a_job(http: httpx.Client) -> None:
    end = http.get("/v1/broker").json()["max_position"]
    produce(http, "w", "a", "b")
    beats = [
        {"name": "lake", "position": end, "clock_ms": now_ms()},
        {"name": "delay", "position": end, "topics": ["SCHEDULE_TOPIC_XXXX"]},
        {"name": "maintenance"},
    ]

    def beat_and_look() -> tuple[dict[str, Any], str]:
        told = http.put("/v1/jobs", json={"jobs": beats}).json()
        assert told.pop("schemas")  # of which the jobs ask when it is another
        assert told == {"broker": "broker-a", "log_levels": None}
        return http.get("/v1/broker").json(), http.get("/metrics").text

    broker, metrics = within(ALIVE_MS / 1000, beat_and_look)
    jobs = broker["jobs"]
    assert [job["alive"] for job in jobs.values()] == [True, True, True]
    assert (jobs["lake"]["lag"], jobs["delay"]["lag"], jobs["maintenance"]["lag"]) == (
        broker["max_position"] - end,
        0,
        None,
    )
    assert jobs["lake"]["last_heartbeat_ms"] <= now_ms()
    assert 'lakemq_job_alive{job="lake"} 1.0' in metrics
    assert f'lakemq_job_lag{{job="lake"}} {float(broker["max_position"] - end)}' in metrics
    assert 'lakemq_overdue{kind="delay"}' in metrics
    ready = http.get("/readyz")
    assert (ready.status_code, ready.json()["status"]) == (200, "ready")


@pytest.mark.parametrize(
    "body",
    [
        {"jobs": [{"name": "no good"}]},
        {"jobs": [{"name": "a", "position": -1}]},
        {"jobs": [{"name": "a", "surprise": 1}]},
        {"jobs": [{"name": "a"}] * 33},
        {},
    ],
)
def test_heartbeats_that_are_none_are_refused(http: httpx.Client, body: dict[str, Any]) -> None:
    assert is_problem(http.put("/v1/jobs", json=body), 400, "invalid_request")
