"""What the tests of delays, transactions and nacks have in common."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import httpx

from lakemq.model.ids import split_nonce
from lakemq.model.names import HALF_TOPIC
from lakemq.storage.state.routing_state import position_of
from tests.gateway.http_client import pull_all
from tests.pauses import pause

WAIT_S_MAX = 60.0


def wait_until(done: Callable[[], bool], what: str = "it did not come") -> None:
    """Look until it is so; fails after a minute."""
    begun_s = time.monotonic()
    while not done():
        assert time.monotonic() < begun_s + WAIT_S_MAX, what
        pause(begun_s)


def position(message_id: str) -> int:
    """The log position in an id, with a nonce or without."""
    return position_of(message_id)


def half_id(transaction_id: str) -> str:
    """The message id of a transaction's half: what all may know of it."""
    return split_nonce(transaction_id)[0]


def halves_left(http: httpx.Client, transaction_id: str) -> int:
    """How many checks of a transaction have left a half behind."""
    return sum(half.get("transaction_id") == half_id(transaction_id) for half in pull_all(http, HALF_TOPIC))


def log_of(http: httpx.Client) -> dict[str, Any]:
    """The log that decisions are made of, as they say it."""
    broker = http.get("/v1/broker").json()
    return {name: broker[name] for name in ("log_id", "epoch")}


def decide(http: httpx.Client, action: str, causes: Sequence[int], due_ms: int | None = None) -> dict[str, int]:
    """Post decisions as the queries do; returns how many were news."""
    body = {"cause": list(causes), "action": [action] * len(causes), "due_ms": [due_ms] * len(causes)}
    response = http.post("/v1/log/decisions", json=body | log_of(http))
    assert response.status_code == 200, response.text
    return response.json()


def begin(http: httpx.Client, topic: str, *bodies: str, group: str = "pg") -> list[str]:
    """Begin transactions; returns their ids."""
    content = {"messages": [{"body": body} for body in bodies]}
    response = http.post(f"/v1/topics/{topic}/transactions", json=content, params={"producer_group": group})
    assert response.status_code == 200, response.text
    return [each["transaction_id"] for each in response.json()["transactions"]]


def resolve(http: httpx.Client, transaction_id: str, resolution: str, group: str = "pg") -> httpx.Response:
    """Resolve one transaction."""
    body = {"producer_group": group, "resolution": resolution}
    return http.post(f"/v1/transactions/{transaction_id}", json=body)


def checks(http: httpx.Client, group: str = "pg", client_id: str = "c", wait_ms: int = 0) -> list[dict[str, Any]]:
    """Ask for checks."""
    query = {"client_id": client_id, "wait_ms": wait_ms}
    response = http.get(f"/v1/producer-groups/{group}/checks", params=query)
    assert response.status_code == 200, response.text
    return response.json()["checks"]


def nack(http: httpx.Client, group: str, *messages: dict[str, Any] | str) -> httpx.Response:
    """Nack messages, an id is just that."""
    content = [{"message_id": each} if isinstance(each, str) else each for each in messages]
    return http.post(f"/v1/groups/{group}/nacks", json={"client_id": "c", "messages": content})


def now_ms() -> int:
    """The clock that a gateway without an offset has."""
    return time.time_ns() // 1_000_000  # noqa: TID251  a test compares with the gateway's clock
