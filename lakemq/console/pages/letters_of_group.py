"""Which brokers a page of one group's dead letters is of."""

from __future__ import annotations

from lakemq.console.reached import Brokers, reach_all, reach_one
from lakemq.console.visit import Visit


async def reach_for_group(visit: Visit) -> Brokers:
    """The one that the query names; else all. Raises `LakemqError` where that one doesn't answer, or the one that is
    looked at."""
    is_only = len(visit.asked.brokers) == 1
    if is_only or visit.named_broker is not None:
        return await reach_one(visit.watches, visit.named_broker or visit.broker, is_only)
    await visit.who()
    return await reach_all(visit.asked, visit.watches)
