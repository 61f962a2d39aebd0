"""The sinks of replays that have ended, which the broker can let go of."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from lakemq.contract import routes
from lakemq.jobs.log_client import LogClient
from lakemq.jobs.replay.plan import ended_sinks
from lakemq.model.errors import LakemqError, SinkNotFound

KEEP_MS = 24 * 3_600_000
"""So long after its last batch nobody tries that again; parts that wait for a commit are kept as long."""

_NAME = re.compile(r"replay-([0-9a-f]{16})-[0-9a-f]{8}")


def forget_ended_sinks(client: LogClient, lake: Path, keep_ms: int = KEEP_MS) -> int:
    """Have the broker forget those whose plan in this lake is finished, and whose last batch is older than `keep_ms`;
    how many. A sink that it doesn't know takes any batch, so those that may go on stay, and those of other lakes."""
    sinks = {each["sink"]: each for each in client.ask(routes.SINKS.at())["sinks"]}
    named = {name: found[1] for name in sinks if (found := _NAME.fullmatch(name)) is not None}
    if not named:
        return 0
    before_ms = client.end().clock_ms - keep_ms
    count = 0
    for name, request_id in named.items():
        if sinks[name]["changed_ms"] < before_ms and name in _ended(lake, request_id):
            _forget(client, name)
            count += 1
    return count


def _ended(lake: Path, request_id: str) -> list[str]:
    with suppress(OSError, ValueError, KeyError):  # what can't be read now is looked at by the next replay
        return ended_sinks(lake, request_id)
    return []


def _forget(client: LogClient, name: str) -> None:
    try:
        client.ask(routes.FORGET_SINK.at(name))
    except LakemqError as error:
        if error.code != SinkNotFound.code:
            raise
