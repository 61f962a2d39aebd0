"""Erasing messages: gone from the log and from the files of the tables, their positions left as holes.

First the log, so that nothing comes into the tables again; then the tables' rows, and `messages` last, once
the other tables' deletes are on disk: after a kill or a power cut at any time, the same condition finds again what
is still to be erased. Then the files that held the rows.

Before the log loses anything, the holes are on disk as ones that have begun. They excuse what tables lack only once
`messages` is about to lose it: where an erasure ends sooner, `verify` must find what is lost later.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import closing, nullcontext
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as all of Spark's users call it)

from lakemq.jobs.errors import InvalidStatement
from lakemq.jobs.log_client import LogClient, LogEnd
from lakemq.jobs.maintenance.erased_files import has_begun, remove_files, set_begun, what_waits
from lakemq.jobs.maintenance.owed_erasures import away, back, owe, places_of, settle
from lakemq.jobs.maintenance.places import IN_LIST_MAX, PLACES, count_by, positions_of, united
from lakemq.jobs.maintenance.progress import catch_up, ends_of, held_of_others
from lakemq.jobs.maintenance.search import Search
from lakemq.jobs.maintenance.work import Outcome, Work
from lakemq.jobs.sql.catalog import register_catalog
from lakemq.jobs.sql.condition import check_condition
from lakemq.jobs.tables.holes import ERASED, ERASING, append_holes, ranges_of
from lakemq.jobs.tables.scheduled import SCHEDULED
from lakemq.jobs.tables.scheduled_writer import TURN
from lakemq.jobs.tables.table import LakeTable
from lakemq.jobs.tables.tables import CONSUME_QUEUE, MESSAGE_INDEX, MESSAGES
from lakemq.jobs.tables.transactions import TRANSACTIONS
from lakemq.jobs.tables.turns import KEEPING, turn_of
from lakemq.model.errors import LogReplaced
from lakemq.model.spark_sql import literal
from lakemq.objects.table_place import sql_place
from lakemq.storage.lake.merge_files import remove_left_parts
from lakemq.storage.lake.progress import Progress, read_progress

LOG_CHUNK = 100_000
"""Positions in a request to a broker."""

_BEFORE_MESSAGES = (MESSAGE_INDEX, CONSUME_QUEUE, TRANSACTIONS, SCHEDULED)


def erase(work: Work) -> Outcome:
    """Erases what parameter `where` finds in `messages` (with `key`, each of a message's keys), and the
    copies and originals of that; `dry_run`: only says how much.

    What is produced after the call is not looked for. Raises `InvalidStatement` for a condition that
    Spark can't understand, `BrokerUnavailable`, and `LakemqError` for too many messages.

    Of brokers that the jobs no longer follow it erases what the lake holds. `logs_not_asked` names them, with how many
    of their messages were found: a log of theirs may still hold these and others. `logs_not_owed` names those of them
    that no later erasure will ask for these either: the lake doesn't know which log they had. Raises `LogReplaced` when
    a broker has another log than the lake's.
    """
    where = work.parameters.get("where")
    if not isinstance(where, str):
        raise InvalidStatement("erase needs a condition: lakemq erase --where …")
    check_condition(where)
    register_catalog(work.session, work.lake)
    work.at("waits until the lake has all of the log")
    held_of_the_same_logs(work)
    ends, held = catch_up(work), read_progress(MESSAGES.path(work.lake))
    others = held_of_others(held, ends)
    work.at("looks for the messages")
    search = Search(work, where)
    search.look(ends | others)
    found = search.found
    if work.parameters.get("dry_run"):
        return Outcome(_counted(found, others, held) | {"dry_run": True})
    detail: dict[str, Any] = {}
    debts = back(work.lake, work.broker_url)
    if debts:
        due = places_of(debts.values())
        detail["logs_asked_later"] = count_by(due, "broker")
        found = united(found, due)
    found = united(found, _came_again(work, debts, held))
    if found.num_rows:
        work.at(f"erases {found.num_rows:,} messages in the logs")
        found, detail["log"] = _erase_in_logs(work, search, ends, held, found)
        _owe(work, found, others, held)
        detail["tables"] = erase_in_tables(work, found)
    detail |= finish(work)
    settle(work.lake, debts)
    return Outcome(_counted(found, others, held) | detail)


def erase_in_tables(work: Work, found: pa.Table) -> dict[str, int]:
    """How many rows went, by table. `finish` is to be called then."""
    set_begun(work.lake, begun=True)
    with KEEPING:  # from the first of topics' own tables on: what is read of `messages` before would come back
        gone = _erase_in_topic_tables(work, found)
        gone |= {table.name: _erase_in_table(work, table, found) for table in _BEFORE_MESSAGES}
        _note_holes(work, found, ERASED)
        # Deletes come to disk in any order: a power cut could bring these rows back, with none in `messages` to
        # find them by.
        work.bring_to_disk()
        gone[MESSAGES.name] = _erase_in_table(work, MESSAGES, found)
    return gone


def finish(work: Work) -> dict[str, Any]:
    """The files go of rows that were deleted, also by an erasure that was cut short: how many, and what waits."""
    if not has_begun(work.lake):
        return {}
    work.at("deletes the files that held them")
    work.refresh()
    work.bring_to_disk()  # what replaces the files that go
    detail: dict[str, Any] = {"files": {path.name: remove_files(work, path) for path in work.paths()}}
    if left := remove_left_parts(work.lake):  # an earlier merge couldn't: rows of any age are in them
        detail["parts_of_merges"] = left
    detail["waits"] = what_waits(work)
    _forget_at_brokers(work)
    set_begun(work.lake, begun=False)
    return detail


def _counted(found: pa.Table, others: Iterable[str], held: Progress) -> dict[str, Any]:
    """`others`: the brokers whose logs can't be asked."""
    counted: dict[str, Any] = {"messages": found.num_rows, "topics": count_by(found, "topic")}
    by_broker = count_by(found, "broker")
    not_asked = {broker: by_broker.get(broker, 0) for broker in sorted(others)}
    not_owed = {broker: count for broker, count in not_asked.items() if count and broker not in held.logs}
    counted |= {"logs_not_asked": not_asked} if not_asked else {}
    return counted | ({"logs_not_owed": not_owed} if not_owed else {})


def held_of_the_same_logs(work: Work) -> Progress:
    """What `messages` holds. Of which logs that is changes no more during the job: `adopt` waits for its turn. Raises
    `LogReplaced` where a broker has another one than the lake."""
    held = read_progress(MESSAGES.path(work.lake))
    for address in work.broker_url.split(","):
        with closing(LogClient(address)) as client:
            _check_log(held, client.end())
    return held


def _check_log(held: Progress, end: LogEnd) -> None:
    """In another log than the lake's the same positions mean other messages: those would go."""
    log_id = held.log_id(end.broker)
    if log_id not in {"", end.log_id}:
        raise LogReplaced(
            f"the lake holds the log {log_id} of {end.broker}, whose log is {end.log_id} now: nothing is erased before "
            "`lakemq lake adopt` has kept the old log's messages under another name"
        )


def _erase_in_logs(
    work: Work, search: Search, ends: dict[str, int], held: Progress, found: pa.Table
) -> tuple[pa.Table, dict[str, int]]:
    """Erase what is found, and what has become of it meanwhile: it may have come due, or been sent again.
    Returns all of it, and how many messages the logs held and now don't, and how many had left them before.
    `held`: what `messages` holds, also of the logs that can't be asked."""
    erased, looked, others = erase_in_log(work, found, held), ends, held_of_others(held, ends)
    while ends_of(work.broker_url) != looked:
        work.check()
        looked = catch_up(work)
        search.look_on(looked | others)
        grown = united(found, search.found)
        if grown.num_rows == found.num_rows:  # nothing is made any more of what is erased
            break
        found = grown
        erased += erase_in_log(work, found, held)
    asked = sum(count for broker, count in count_by(found, "broker").items() if broker not in others)
    return found, {"erased": erased, "not_there": asked - erased}


def erase_in_log(work: Work, found: pa.Table, held: Progress) -> int:
    """How many messages the logs held and now don't."""
    positions = _note_holes(work, found, ERASING)
    work.bring_to_disk()  # a power cut would leave a log without these messages, and nobody would know that they went
    erased = 0
    for address in work.broker_url.split(","):
        with closing(LogClient(address)) as client:
            end = client.end()
            _check_log(held, end)
            there = positions.get(end.broker, [])
            for at in range(0, len(there), LOG_CHUNK):
                work.check()
                erased += client.erase(there[at : at + LOG_CHUNK])
    return erased


def _note_holes(work: Work, found: pa.Table, kind: str) -> dict[str, list[int]]:
    """The positions of what is found, by broker."""
    positions = positions_of(found)
    for broker, each in positions.items():
        append_holes(work.lake, broker, ranges_of(each), kind)
    return positions


def _forget_at_brokers(work: Work) -> None:
    """Each erasure has the gateway forget what it has read of the lake, one of nothing too."""
    for address in work.broker_url.split(","):
        with closing(LogClient(address)) as client:
            client.erase([])


def _came_again(work: Work, debts: Collection[str], held: Progress) -> pa.Table:
    """What is owed of logs that are away again, and has rows: they were back without an erasure, and a table that was
    behind `messages` took from them what `messages` no longer led to. `debts`: of these logs it will be erased."""
    logs = {broker: mark.log_id for broker, mark in held.logs.items()}
    places = places_of(away(work.lake, logs, debts))
    if not places.num_rows:
        return PLACES.empty_table()
    rows = reduce(DataFrame.unionAll, (work.rows(table).select("broker", "position") for table in work.tables()))
    asked = F.broadcast(work.session.createDataFrame(places))
    return rows.join(asked, ["broker", "position"]).select(*PLACES.names).distinct().toArrow()


def _owe(work: Work, found: pa.Table, others: Iterable[str], held: Progress) -> None:
    """Has the logs that couldn't be asked be asked once they can be: then nothing of it is in the lake."""
    lacking = set(count_by(found, "broker")).intersection(others, held.logs)
    owe(work.lake, {broker: held.logs[broker].log_id for broker in lacking}, found)


def _erase_in_topic_tables(work: Work, found: pa.Table) -> dict[str, int]:
    """How many rows went, by table."""
    topics, gone = set(found["topic"].to_pylist()), dict[str, int]()
    for table in work.topic_tables():
        if table.topic in topics:
            work.check()
            work.at(f"erases rows of {table.path.name}")
            with turn_of(table.path):
                gone[table.path.name] = _delete(work, table.path, found, "_broker", "_position")
    return gone


def _erase_in_table(work: Work, table: LakeTable, found: pa.Table) -> int:
    """How many rows went."""
    work.check()
    work.at(f"erases rows of {table.name}")
    if table not in work.tables():
        return 0
    # `scheduled` is the one table whose files the lake query writes again.
    with turn_of(table.path(work.lake)), TURN if table is SCHEDULED else nullcontext():
        return _delete(work, table.path(work.lake), found)


def _delete(work: Work, path: Path, found: pa.Table, broker_column: str = "broker", column: str = "position") -> int:
    work.forget_cached()
    target = sql_place(path)
    if found.num_rows <= IN_LIST_MAX:  # Delta finds the files by their statistics then
        each = (
            f"{broker_column} = {literal(broker)} AND {column} IN ({', '.join(map(str, positions))})"
            for broker, positions in positions_of(found).items()
        )
        condition = " OR ".join(f"({part})" for part in each)
        rows = work.session.sql(f"DELETE FROM {target} WHERE {condition}").toArrow()  # noqa: S608 (numbers, names)
        return int(rows["num_affected_rows"][0].as_py())
    positions = work.session.createDataFrame(found.select(["broker", "position"]))
    positions.createOrReplaceTempView("lakemq_erased")
    within = positions.agg(F.min("position"), F.max("position")).toArrow().to_pylist()[0]
    low, high = within.values()
    rows = work.session.sql(
        f"MERGE INTO {target} t USING lakemq_erased s ON t.{broker_column} = s.broker AND t.{column} = s.position "
        f"AND t.{column} BETWEEN {low} AND {high} WHEN MATCHED THEN DELETE"
    ).toArrow()
    return int(rows["num_deleted_rows"][0].as_py())
