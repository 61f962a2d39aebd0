"""Groups with dead letters."""

from __future__ import annotations

from typing import Any

import httpx

from tests.gateway.http_client import produce
from tests.gateway.routing.asking import wait_until


def bury(http: httpx.Client, group: str, *reasons: Any) -> None:
    """The group has a dead letter for each reason."""
    ids = [each["message_id"] for each in produce(http, group, *["x"] * len(reasons))]
    nacks = [{"message_id": each, "delay_level": -1, "reason": why} for each, why in zip(ids, reasons, strict=True)]
    http.post(f"/v1/groups/{group}/nacks", json={"messages": nacks}).raise_for_status()
    dead = f"/v1/groups/{group}/dead-letters"
    wait_until(lambda: len(http.get(dead).json()["dead_letters"]) == len(reasons))
