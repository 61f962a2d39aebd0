"""The job `index-rebuild`: `consume_queue` and `message_index` made anew of `messages`.

One commit puts the new files in the place of all that its version has, without reading any of the
old: they may be damaged. It leaves the table's progress alone. Rows that the lake query adds
meanwhile are in files of later versions, which stay. As of OPTIMIZE, Delta is told that no data
changes: else each of these appends would be a conflict, and a stream that reads the table would end.
"""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as all of Spark's users call it)

from lakemq.jobs.maintenance.work import Outcome, Work
from lakemq.jobs.tables.table import LakeTable
from lakemq.jobs.tables.table_log import TableLog, action_of, delta_class
from lakemq.jobs.tables.tables import CONSUME_QUEUE, MESSAGE_INDEX, MESSAGES
from lakemq.jobs.tables.turns import turn_of
from lakemq.model.errors import LakemqError
from lakemq.storage.lake.progress import Progress, read_progress

_WAIT_S = 0.1
_WAIT_S_MAX = 60.0


def rebuild_index(work: Work) -> Outcome:
    """Rebuilds both tables, or the one of parameter `table`."""
    chosen = work.parameters.get("table")
    tables = [table for table in (CONSUME_QUEUE, MESSAGE_INDEX) if chosen in {None, table.name}]
    if not tables:
        raise LakemqError(f"no index {chosen!r}; there are {CONSUME_QUEUE.name}, {MESSAGE_INDEX.name}")
    there = work.tables()
    rebuilt = {table.name: _in_turn(work, table) for table in tables if table in there and MESSAGES in there}
    return Outcome({"rebuilt": rebuilt})


def derived_rows(table: LakeTable, messages: DataFrame) -> DataFrame:
    """The rows that `table` should have for these rows of `messages`."""
    return table.rows(messages.withColumn("size", F.length("body").cast("int")))


def _in_turn(work: Work, table: LakeTable) -> dict[str, Any]:
    with turn_of(table.path(work.lake)):
        return _rebuild(work, table)


def _rebuild(work: Work, table: LakeTable) -> dict[str, Any]:
    work.check()
    log = TableLog(work.session, table.path(work.lake))
    transaction = log.begin(log.look())
    snapshot = transaction.snapshot()
    held = read_progress(table.path(work.lake), snapshot.version()).held
    source = _messages_up_to(work, held)
    rows = derived_rows(table, work.rows(MESSAGES, source.version).where(is_below(held)))
    old = list(snapshot.allFiles().collectAsList())
    written = transaction.writeFiles(rows._jdf)  # pyright: ignore[reportPrivateUsage]
    added = written.size()
    actions = written.take(0)
    for number in range(added):
        actions = actions.appended(_without_change(log.jvm, written.apply(number)))
    for file in old:
        actions = actions.appended(_without_change(log.jvm, file.remove()))
    work.check()
    operation = delta_class(log.jvm, "DeltaOperations$ManualUpdate$").__getattr__("MODULE$")
    version = transaction.commit(actions, operation)
    return {"version": version, "files_before": len(old), "files_after": added, "from_messages": source.version}


def _without_change(jvm: Any, action: Any) -> Any:
    """The same action of Delta's, of which its log says that it changes no data."""
    (kind, content), *_ = json.loads(action.json()).items()
    content["dataChange"] = False
    return action_of(jvm, json.dumps({kind: content}))


def is_below(held: dict[str, int]) -> Column:
    """Of a row: whether it is below its broker's position in `held`."""
    condition = F.lit(False)
    for broker, position in held.items():
        condition = condition | ((F.col("broker") == broker) & (F.col("position") < position))
    return condition


def _messages_up_to(work: Work, held: dict[str, int]) -> Progress:
    """A version of `messages` that holds all that is below `held`: tables are written side by side."""
    waited = 0.0
    while True:
        found = read_progress(MESSAGES.path(work.lake))
        if all(found.held.get(broker, 0) >= position for broker, position in held.items()):
            return found
        work.check()
        if waited >= _WAIT_S_MAX:
            raise LakemqError(f"messages holds {found.held}, an index {held}: the lake query does not go on")
        work.stop.wait(_WAIT_S)
        waited += _WAIT_S
