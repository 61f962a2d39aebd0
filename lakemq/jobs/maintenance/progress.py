"""How far the tables hold the logs, and the wait until they hold them as far as they go now."""

from __future__ import annotations

import time
from collections.abc import Collection

from lakemq.jobs.log_client import LogClient
from lakemq.jobs.maintenance.work import Work
from lakemq.jobs.tables.tables import TABLES
from lakemq.model.errors import LakemqError
from lakemq.storage.lake.progress import Progress, read_progress

_LOOK_S = 0.2
_WAIT_S_MAX = 600.0


def ends_of(broker_url: str) -> dict[str, int]:
    """Where each broker's log ends now. Raises `BrokerUnavailable`."""
    ends: dict[str, int] = {}
    for address in broker_url.split(","):
        client = LogClient(address)
        try:
            ends[client.end().broker] = client.end_of_log()
        finally:
            client.close()
    return ends


def held_by_all(work: Work) -> dict[str, int]:
    """Below these positions every table that there is holds everything, by broker."""
    held = [read_progress(table.path(work.lake)).held for table in TABLES]
    brokers = set[str]().union(*held)
    return {broker: min(each.get(broker, 0) for each in held) for broker in brokers}


def held_of_others(messages: Progress, asked: Collection[str]) -> dict[str, int]:
    """How far `messages` holds the logs of all other brokers: of those that have left or are away, and logs that were
    replaced. Nothing more comes of them, so how far other tables are says nothing."""
    return {broker: position for broker, position in messages.held.items() if broker not in asked}


def catch_up(work: Work) -> dict[str, int]:
    """Returns the ends that the logs had at the call, once all tables hold everything below them."""
    ends = ends_of(work.broker_url)
    with work.lake_query() as check_query:
        give_up = time.monotonic() + _WAIT_S_MAX
        while any(held_by_all(work).get(broker, 0) < end for broker, end in ends.items()):
            work.check()
            if check_query is not None:
                check_query()
            if time.monotonic() > give_up:
                raise LakemqError(f"the tables don't come up to the logs' ends {ends}: does the lake query run?")
            work.stop.wait(_LOOK_S)
    return ends
