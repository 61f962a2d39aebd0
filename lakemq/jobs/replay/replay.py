"""`lakemq replay`: messages of the lake become messages again, each once, even if it is killed half-way.

The plan says which messages make which batch, and the sink at the broker takes each batch once: so a
replay that is started again goes on after the last batch that the broker has.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lakemq.contract import routes
from lakemq.jobs.log_client import LogClient
from lakemq.jobs.replay.ended_sinks import forget_ended_sinks
from lakemq.jobs.replay.plan import (
    BATCH_MESSAGES_MAX,
    Batch,
    Plan,
    ReplayRequest,
    find,
    finish_plan,
    forget_plan,
    make_plan,
    read_plan,
    rows_of,
    sweep_plans,
)
from lakemq.jobs.session.discovery import Server
from lakemq.jobs.session.token_file import token_for
from lakemq.jobs.sql.connect_client import complaint
from lakemq.jobs.sql.connect_session import connect_session
from lakemq.model.errors import LakemqError, SinkNotFound
from lakemq.settings import Settings
from lakemq.storage.disk.clock import SystemClock

_LEFT_S = 24 * 3600.0
"""What nobody has written for so long, a killed process has left."""

Report = Callable[[int, int], None]
"""Is told how many messages of how many are sent."""


@dataclass(frozen=True)
class Replayed:
    """What a replay did. `gone`: messages that were erased, or let go of, after they had been found.
    `dropped`: those that the topic no longer took. `resumed`: an earlier run had begun it."""

    sink: str
    matched: int
    sent: int
    gone: int
    dropped: int
    resumed: bool
    finished_before: bool = False


def look(session: SparkSession, lake: Path, where: str) -> list[dict[str, Any]]:
    """What a replay would send, by topic: how many, and stored from when to when. Raises `InvalidStatement`."""
    found = find(session, lake, where).selectExpr("topic", "1 AS one", "unix_millis(store_time) AS stored")
    found = found.selectExpr("topic", "one", "stored AS first", "stored AS last")
    by_topic = found.groupBy("topic").agg({"one": "count", "first": "min", "last": "max"}).orderBy("topic")
    rows = by_topic.selectExpr("topic", "`count(one)`", "`min(first)`", "`max(last)`").collect()
    names = ("topic", "messages", "first_ms", "last_ms")
    return [dict(zip(names, row, strict=True)) for row in rows]


def replay(
    session: SparkSession,
    lake: Path,
    broker: str,
    wanted: ReplayRequest,
    rate_per_s: int | None = None,
    again: bool = False,
    report: Report = lambda sent, matched: None,
) -> Replayed:
    """Send the messages, at most about `rate_per_s` of them a second, and go on where an earlier run of the
    same was ended. `again`: anew, if that had finished; else it sends nothing then.

    Raises `InvalidStatement`, `BrokerUnavailable` and what keeps a producer from the topic.
    """
    plan, ended = read_plan(lake, wanted), None
    if plan is not None and plan.finished and again:
        forget_plan(lake, wanted)
        plan, ended = None, plan
    client = LogClient(broker)
    try:
        forget_ended_sinks(client, lake)
        sweep_plans(lake, SystemClock().now_ms() / 1000 - _LEFT_S)
        resumed = plan is not None
        if plan is None:
            batch_messages = min(rate_per_s or BATCH_MESSAGES_MAX, BATCH_MESSAGES_MAX)
            plan = make_plan(session, lake, wanted, batch_messages, ended)
        if plan.finished:
            return _finished_before(plan)
        try:
            done = _send_all(session, lake, client, plan, rate_per_s, report)
        except LakemqError:
            now = read_plan(lake, wanted)  # another process may have sent the rest, and let go of the positions
            if now is None or now.sink != plan.sink or not now.finished:
                raise
            return _finished_before(now)
        # The sink stays: whoever does the same beside this one, or a task of Spark's that a killed client has left,
        # may commit the last batch yet, and only the sink knows that it has it.
        finish_plan(lake, plan, done["messages"])
        gone = plan.found - done["messages"] - done["dropped"]
        return Replayed(plan.sink, plan.found, done["messages"], gone, done["dropped"], resumed)
    finally:
        client.close()


def _finished_before(plan: Plan) -> Replayed:
    return Replayed(plan.sink, plan.found, plan.sent, 0, 0, resumed=False, finished_before=True)


def _send_all(
    session: SparkSession, lake: Path, client: LogClient, plan: Plan, rate_per_s: int | None, report: Report
) -> dict[str, int]:
    """Send what the broker hasn't; returns what it says of the sink then."""
    first = _state(client, plan)["batch"] + 1
    begun_s, sent = time.monotonic(), 0
    before = sum(batch.count for batch in plan.batches[:first])
    report(before, plan.found)
    for number, batch in enumerate(plan.batches[first:], first):
        if rate_per_s is not None:
            time.sleep(max(0.0, begun_s + sent / rate_per_s - time.monotonic()))
        _send(session, lake, client.address, plan, number, batch)
        sent += batch.count
        report(before + sent, plan.found)
    return _state(client, plan)


def _send(session: SparkSession, lake: Path, broker: str, plan: Plan, number: int, batch: Batch) -> None:
    wanted = plan.wanted
    options = {"broker": broker, "topic": wanted.topic, "sink": plan.sink, "batch": str(number)}
    options["progress"] = json.dumps({"broker": batch.broker, "position": batch.high})
    if wanted.group is not None:
        options["group"] = wanted.group
    try:
        rows = rows_of(session, lake, plan, batch)
        rows.write.format("lakemq").mode("append").options(**options).save()
    except PySparkException as error:
        raise LakemqError(f"batch {number} can't be sent: {_cause_of(str(error))}") from None


def _cause_of(text: str) -> str:
    """The last line that names an error of ours or Python's, in Spark's long story of it."""
    lines = [line.strip() for line in text.splitlines() if "lakemq." in line and ": " in line and "File " not in line]
    return lines[-1].partition(": ")[2] if lines else complaint(text)


def _state(client: LogClient, plan: Plan) -> dict[str, int]:
    try:
        return client.ask(routes.SINK.at(plan.sink))
    except LakemqError as error:
        if error.code != SinkNotFound.code:
            raise
        return {"batch": -1, "messages": 0, "dropped": 0}


@contextmanager
def lake_session(settings: Settings, server: Server | None, say: Callable[[str], None]) -> Generator[SparkSession]:
    """A session in the running jobs' Spark, which is at this server; else in one that is started here and ends with
    it. Raises `LakeNotFound`."""
    if server is not None:
        session = connect_session(server, token_for(settings.sql, settings.lake.dir))
        try:
            yield session
        finally:
            session.stop()
        return
    from lakemq.jobs.session.own_spark import own_spark
    from lakemq.jobs.sql.statement import open_lake

    say(f"no jobs run for the lake in {settings.lake.dir}; starting Spark here takes some seconds")
    with own_spark():
        yield open_lake(settings)
