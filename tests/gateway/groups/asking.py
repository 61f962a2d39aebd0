"""What the tests of consumer groups have in common."""

from __future__ import annotations

from typing import Any

import httpx


def heartbeat(http: httpx.Client, group: str, client_id: str, *topics: str | dict[str, Any], **fields: Any) -> Any:
    """Be heard of; a topic that is just a name is subscribed to whole. Returns the answer."""
    subscriptions = [
        {"topic": each, "type": "tag", "expression": "*"} if isinstance(each, str) else each for each in topics
    ]
    body = {"model": "clustering", "consume_from": "last", "subscriptions": subscriptions, **fields}
    response = http.post(f"/v1/groups/{group}/members/{client_id}/heartbeat", json=body)
    assert response.status_code == 200, response.text
    return response.json()


def members(http: httpx.Client, group: str, **query: int) -> Any:
    """Ask for the members, maybe for when they change."""
    response = http.get(f"/v1/groups/{group}/members", params=query)
    assert response.status_code == 200, response.text
    return response.json()


def view(http: httpx.Client, group: str) -> Any:
    """All of a group."""
    response = http.get(f"/v1/groups/{group}")
    assert response.status_code == 200, response.text
    return response.json()


def commit(http: httpx.Client, group: str, topic: str, offsets: dict[int, int], **fields: Any) -> dict[int, int]:
    """Commit offsets by queue id; returns those in force."""
    content = [{"topic": topic, "queue_id": queue_id, "offset": offset} for queue_id, offset in offsets.items()]
    response = http.put(f"/v1/groups/{group}/offsets", json={"offsets": content, **fields})
    assert response.status_code == 200, response.text
    return {each["queue_id"]: each["offset"] for each in response.json()["offsets"]}


def offsets(http: httpx.Client, group: str, topic: str) -> dict[int, int]:
    """The group's offsets of a topic, by queue id."""
    response = http.get(f"/v1/groups/{group}/offsets", params={"topic": topic})
    assert response.status_code == 200, response.text
    assert all(each["topic"] == topic for each in response.json()["offsets"])
    return {each["queue_id"]: each["offset"] for each in response.json()["offsets"]}


def reset(http: httpx.Client, group: str, topic: str, to: str, **fields: Any) -> dict[int, int]:
    """Reset the group's offsets; returns them."""
    response = http.post(f"/v1/groups/{group}/offsets/reset", json={"topic": topic, "to": to, **fields})
    assert response.status_code == 200, response.text
    return {each["queue_id"]: each["offset"] for each in response.json()["offsets"]}


def lock(
    http: httpx.Client, group: str, client_id: str, topic: str, *queue_ids: int, release: bool = False
) -> list[int]:
    """Lock queues, or release them; returns those that were."""
    body = {"client_id": client_id, "queues": [{"topic": topic, "queue_id": queue_id} for queue_id in queue_ids]}
    response = http.request("DELETE" if release else "POST", f"/v1/groups/{group}/locks", json=body)
    assert response.status_code == 200, response.text
    return [each["queue_id"] for each in response.json()["unlocked" if release else "locked"]]
