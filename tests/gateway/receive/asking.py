"""What the tests of receive and acknowledge have in common."""

from __future__ import annotations

from typing import Any

import httpx


def receive(http: httpx.Client, group: str, topic: str, **fields: Any) -> list[dict[str, Any]]:
    """Receive, by default without a wait and for a minute; returns the messages."""
    content = {"topic": topic, "wait_ms": 0, "invisible_ms": 60_000, **fields}
    response = http.post(f"/v1/groups/{group}/receive", json=content)
    assert response.status_code == 200, response.text
    return response.json()["messages"]


def ack(http: httpx.Client, group: str, *receipts: str | dict[str, Any]) -> list[str]:
    """Acknowledge receipts, or messages; returns a status of each."""
    texts = [each if isinstance(each, str) else each["receipt"] for each in receipts]
    response = http.post(f"/v1/groups/{group}/acks", json={"receipts": texts})
    assert response.status_code == 200, response.text
    answered = response.json()["receipts"]
    assert [each["receipt"] for each in answered] == texts
    return [each["status"] for each in answered]


def change(http: httpx.Client, group: str, receipt: str, invisible_ms: int) -> httpx.Response:
    """Change how long a message is out."""
    return http.post(f"/v1/groups/{group}/invisibility", json={"receipt": receipt, "invisible_ms": invisible_ms})


def bodies(messages: list[dict[str, Any]]) -> list[str]:
    """The messages' bodies."""
    return [message["body"] for message in messages]


def out(http: httpx.Client) -> int:
    """How many messages are out at the broker."""
    return http.get("/v1/routing").json()["receive"]["out"]
