"""What waits for a topic that is deleted, and made again before it is due: it comes to nobody."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from lakemq.gateway.routing.checks import CHECKS_MAX
from lakemq.storage.segment.content import ROWS_MAX
from lakemq.testing import start_gateway
from tests.gateway.http_client import connect, is_problem, produce, pull_all, put_topic
from tests.gateway.routing.asking import begin, checks, decide, halves_left, position, resolve, wait_until
from tests.gateway.timed import Timed

HOUR_MS = 3_600_000
DECISIONS = "RMQ_SYS_DECISION_TOPIC"


@pytest.fixture
def timed(tmp_path: Path) -> Iterator[Timed]:
    with Timed(tmp_path) as made:
        yield made


def make_again(http: httpx.Client, topic: str) -> None:
    assert http.delete(f"/v1/topics/{topic}").status_code == 200
    put_topic(http, topic, queues=1)


def dropped(http: httpx.Client) -> int:
    """So many were."""
    return sum(each.get("tag") == "drop" for each in pull_all(http, DECISIONS))


@pytest.mark.parametrize("count", [1, ROWS_MAX + 1])
def test_a_scheduled_message_is_the_next_owners_neither(timed: Timed, topic: str, count: int) -> None:
    http = timed.http
    produce(http, topic, *({"body": "old", "delay_ms": HOUR_MS} for _ in range(count)))
    make_again(http, topic)
    put_topic(http, topic, queues=2)  # which makes it no other
    produce(http, topic, *({"body": "new", "delay_ms": HOUR_MS} for _ in range(count)))
    timed.pass_ms(HOUR_MS)
    wait_until(lambda: http.get("/v1/routing").json()["delay"]["waiting"] == 0)
    assert [each["body"] for each in pull_all(http, topic)] == ["new"] * count
    assert dropped(http) == count


def test_a_transaction_commits_to_no_topic_that_came_after_it(timed: Timed, topic: str) -> None:
    http = timed.http
    group, path = {"producer_group": "pg"}, f"/v1/topics/{topic}/transactions"
    put_topic(http, topic, queues=1)
    raw = http.post(path, params=group, content=b"raw", headers={"Content-Type": "application/octet-stream"})
    old = [raw.json()["transactions"][0]["transaction_id"], *begin(http, topic, "a", "b")]
    make_again(http, topic)
    (new,) = begin(http, topic, "new")
    for each in (*old[:2], new):
        assert resolve(http, each, "commit").status_code == 200
    assert [each["body"] for each in pull_all(http, topic)] == ["new"]
    timed.pass_ms(HOUR_MS)
    begin(http, topic, "later")
    wait_until(lambda: http.get("/v1/routing").json()["transactions"]["open"] == 2)
    assert resolve(http, old[2], "rollback").status_code == 200
    assert is_problem(resolve(http, old[2], "commit"), 409, "transaction_resolved")


def test_nobody_is_asked_about_a_half_whose_topic_is_another_by_now(timed: Timed, topic: str) -> None:
    http = timed.http
    old = begin(http, topic, *["old"] * (CHECKS_MAX + 1))
    make_again(http, topic)
    timed.pass_ms(HOUR_MS)
    (new,) = begin(http, topic, "new")
    wait_until(lambda: all(halves_left(http, each) for each in old))
    decide(http, "check", [position(new)])
    # A poll that meets the others goes on to it.
    assert [each["message"]["body"] for each in checks(http, wait_ms=50_000)] == ["new"]


def test_it_is_known_after_a_kill_and_when_its_segment_leaves(tmp_path: Path) -> None:
    settings = {"storage__segment_bytes": 2**20, "storage__retention_ms": 0, "routing__grace_ms": -1}
    settings |= {"storage__compacted_grace_ms": 0, "lake__verify": 0}
    with start_gateway(tmp_path, **settings) as gateway, connect(gateway) as http:
        produce(http, "t", {"body": "old", "delay_ms": HOUR_MS})
        produce(http, "u", {"body": "other", "delay_ms": HOUR_MS})
        make_again(http, "t")
        (new,) = produce(http, "t", {"body": "new", "delay_ms": HOUR_MS})
        for _ in range(3):
            produce(http, "u", secrets.token_hex(2**20))
        gateway.kill()
    with start_gateway(tmp_path, **settings) as gateway, connect(gateway) as http:
        produce(http, "u", "y")
        end = http.get("/v1/broker").json()["max_position"]
        assert http.put("/v1/broker/compacted", json={"compacted_position": end}).status_code == 200
        wait_until(lambda: http.get("/v1/broker").json()["min_position"] > position(new["message_id"]))
        assert dropped(http) == 1
        assert http.get("/v1/routing").json()["delay"]["waiting"] == 2
        gateway.kill()
    with start_gateway(tmp_path, clock_offset_ms=2 * HOUR_MS, **settings) as gateway, connect(gateway) as http:
        begin_position = http.get("/v1/routing").json()["delay"]["begin_position"]
        decide(http, "deliver", range(begin_position, begin_position + 10))
        wait_until(lambda: http.get("/v1/routing").json()["delay"]["waiting"] == 0)
        assert [each["body"] for each in pull_all(http, "t")] == ["new"]
        assert "other" in {each["body"] for each in pull_all(http, "u")}
