"""What a log of the corpus has in it: everything that has a record, or a place in the log's state."""

from __future__ import annotations

from typing import Any

import httpx
import pyarrow as pa

from tests.gateway.access.asking import allow, make_user
from tests.gateway.http_client import produce, produce_arrow, pull_all, put_topic
from tests.gateway.receive.asking import ack, receive
from tests.gateway.routing.asking import nack, now_ms, wait_until
from tests.gateway.sinks.asking import commit, put_part

DAY_MS = 24 * 3600 * 1000
SOON_MS = 60_000
ORDERS = "orders"
LARGE = "large"
WORK = "work"
RETRIED, DEAD = "%RETRY%billing", "%DLQ%billing"
IDEMPOTENT = ({"messages": [{"body": "once"}]}, {"Idempotency-Key": '"once-1"'})


def fill(http: httpx.Client) -> dict[str, Any]:
    """Fill a broker that has nothing yet; what it answered, as JSON values."""
    put_topic(http, ORDERS, 3)
    said = _produce_in_all_forms(http)
    for _ in range(6):  # one after the other: a segment ends with the request that fills it
        produce(http, LARGE, "x" * 300_000)
    said |= _consume(http) | _let_wait(http)
    said["token"] = make_user(http, "reader", allow(f"Topic:{ORDERS}", "Sub"), allow("Group:reading", "Sub"))
    put_topic(http, "gone")
    produce(http, "gone", "nobody sees this")
    assert http.delete("/v1/topics/gone").is_success
    for _ in range(4):
        produce(http, LARGE, "x" * 300_000)
    return said


def read_all(http: httpx.Client) -> dict[str, list[dict[str, Any]]]:
    """All messages of the topics that don't change by themselves, as pulls answer them."""
    return {topic: pull_all(http, topic) for topic in (ORDERS, LARGE, WORK, "sunk", DEAD)}


def _produce_in_all_forms(http: httpx.Client) -> dict[str, Any]:
    number = range(20)
    produce(http, ORDERS, *[_message(each) for each in number])
    produce(http, ORDERS, "synced", ack="sync")
    rows = 2_000
    bodies = pa.array([b"row %d " % each + b"y" * 100 for each in range(rows)], pa.binary())
    produce_arrow(http, ORDERS, {"body": bodies, "tag": ["A" if each % 3 else None for each in range(rows)]})
    headers = {"Lakemq-Tag": "raw", "Lakemq-Keys": "k1,k2", "Lakemq-Property-Color": "green"}
    assert http.post(f"/v1/topics/{ORDERS}/messages", content=b"\x00\xff raw", headers=headers).is_success
    event = {"specversion": "1.0", "id": "e-1", "source": "/shop", "type": "paid", "data": {"sum": 7}}
    headers = {"Content-Type": "application/cloudevents+json"}
    assert http.post(f"/v1/topics/{ORDERS}/messages", json=event, headers=headers).is_success
    secret = produce(http, ORDERS, "a secret")[0]
    assert http.post("/v1/log/erasures", json={"positions": [secret["position"]]}).json()["erased"] == 1
    once = http.post(f"/v1/topics/{ORDERS}/messages", json=IDEMPOTENT[0], headers=IDEMPOTENT[1])
    return {"once": once.json(), "erased": secret}


def _message(number: int) -> dict[str, Any]:
    return {
        "body": f"body {number} ✓",
        "tag": "AB"[number % 2],
        "keys": [f"user-{number % 5}", "all"],
        "properties": {"n": str(number), "empty": ""},
        "ordering_key": f"o{number % 2}",
        "born_time_ms": 1_600_000_000_000 + number,
    }


def _consume(http: httpx.Client) -> dict[str, Any]:
    queue = {"topic": ORDERS, "queue_id": 1, "offset": 5}
    assert http.put("/v1/groups/billing/offsets", json={"offsets": [queue]}).is_success
    first, second, *_ = produce(http, WORK, *[f"work {number}" for number in range(6)])  # what waits stays in the log
    (hopeless,) = produce(http, WORK, {"body": "hopeless", "tag": "hopeless"})
    nack(http, "billing", {"message_id": first["message_id"], "delay_level": 18})
    nack(http, "billing", {"message_id": second["message_id"], "delay_level": -1})
    nack(http, "billing", {"message_id": hopeless["message_id"], "delay_level": -1})
    wait_until(lambda: len(pull_all(http, DEAD)) == 2)
    discard = http.post("/v1/groups/billing/dead-letters/discard", json={"where": "tag = 'hopeless'"})
    assert discard.json()["discarded"] == 1
    out = receive(http, "workers", WORK, max=3, invisible_ms=12 * 3600 * 1000)
    assert ack(http, "workers", out[0]) == ["ok"]
    dead = {"dead": second["message_id"], "discarded": hopeless["message_id"]}
    return {"offsets": [queue], **dead, "received": out}


def _let_wait(http: httpx.Client) -> dict[str, Any]:
    soon, late = produce(
        http, "boarding", {"body": "soon", "delay_ms": SOON_MS}, {"body": "late", "delay_ms": 300 * DAY_MS}
    )
    halves = http.post(
        "/v1/topics/paid/transactions",
        params={"producer_group": "shop"},
        json={"messages": [{"body": body} for body in ("open", "committed", "rolled back")]},
    ).json()["transactions"]
    for half, resolution in zip(halves[1:], ("commit", "rollback"), strict=True):
        path = f"/v1/transactions/{half['transaction_id']}"
        assert http.post(path, json={"producer_group": "shop", "resolution": resolution}).is_success
    put_topic(http, "sunk")
    assert put_part(http, "exports", 0, "p", ["part one", "part two"], topic="sunk").is_success
    assert commit(http, "exports", 0, "p", progress="to 17").is_success
    wait_until(lambda: len(pull_all(http, "sunk")) == 2)
    assert put_part(http, "exports", 1, "q", ["part three"], topic="sunk").is_success
    return {"soon": soon, "late": late | {"due_ms": now_ms() + 300 * DAY_MS}, "half": halves[0]["transaction_id"]}
