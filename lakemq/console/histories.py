"""What brokers know of a message's life, gathered from few requests."""

from __future__ import annotations

from typing import Any

from lakemq.console.asked import Broker
from lakemq.contract import find_routes
from lakemq.model.life import goes_on, with_page

FURTHER_MAX = 64
FURTHER_STEP = 4
"""A page of the log takes the broker half a second at most. The first look is one; each further one so many times as
many as the one before."""


async def history_of(broker: Broker, message_id: str, further: int) -> dict[str, Any]:
    """The history of a message; `further`: so many pages of the log may be read for it. Its
    `next_after` is None where all was. Raises `LakemqError`."""
    whole: dict[str, Any] = await broker.get(find_routes.HISTORY.at(message_id))
    for _ in range(min(further, FURTHER_MAX) - 1):
        if not goes_on(whole):
            break
        whole = with_page(whole, await broker.get(find_routes.HISTORY.at(message_id), {"after": whole["next_after"]}))
    return whole
