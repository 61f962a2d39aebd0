"""What brokers know of a message's life, gathered from few requests."""

from __future__ import annotations

from typing import Any

from lakemq.console.asked import Broker
from lakemq.contract import find_routes

FURTHER_MAX = 64
FURTHER_STEP = 4
"""A page of the log takes the broker half a second at most. The first look is one; each further one so many times as
many as the one before."""
EVENTS_MAX = 400


async def history_of(broker: Broker, message_id: str, further: int) -> dict[str, Any]:
    """The history of a message; `further`: so many pages of the log may be read for it. Its
    `next_after` is None where all was. Raises `LakemqError`."""
    whole = await broker.get(find_routes.HISTORY.at(message_id))
    for _ in range(min(further, FURTHER_MAX) - 1):
        if whole["next_after"] is None or len(whole["events"]) >= EVENTS_MAX:
            break
        page = await broker.get(find_routes.HISTORY.at(message_id), {"after": whole["next_after"]})
        whole["events"] += page["events"]
        whole["next_after"] = page["next_after"]
        if page["target"] is not None:
            whole |= {name: page[name] for name in ("target", "groups", "more_groups")}
    return whole
