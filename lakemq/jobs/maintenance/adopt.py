"""The job `adopt`: a lake goes on with a broker's new log, and keeps the old one's messages apart.

Positions and queue offsets of the new log begin anew, so the old rows must not be taken for its own: they get
another broker's name, `{broker}~{the old log's id, its first eight digits}`, which no broker can have. SQL sees
both; pulls, by broker, only what is of the log they ask.
"""

from __future__ import annotations

from contextlib import closing

from lakemq.jobs.errors import LakeOutOfStep
from lakemq.jobs.log_client import LogClient
from lakemq.jobs.maintenance.work import Outcome, Work
from lakemq.jobs.tables.holes import rename_holes
from lakemq.jobs.tables.table import LakeTable
from lakemq.jobs.tables.topic_table import TopicTable
from lakemq.jobs.tables.turns import KEEPING, turn_of
from lakemq.objects.table_place import sql_place
from lakemq.storage.lake.delta_log import APPLICATION
from lakemq.storage.lake.log_marks import LogMark, append_identifiers, log_identifier, replaced
from lakemq.storage.lake.progress import read_progress

DIGITS = 8


def adopt(work: Work) -> Outcome:
    """Renames what the tables hold of other logs of the brokers; what each broker's old log is called now, by
    table. Can be run again after any failure: a table that is done says so itself."""
    renamed: dict[str, dict[str, str]] = {}
    for address in work.broker_url.split(","):
        with closing(LogClient(address, retry_s=5.0)) as client:
            end = client.end()
        _rename_holes(work, end.broker, end.log_id)
        for table in work.tables():
            work.check()
            mark = read_progress(table.path(work.lake)).logs.get(end.broker)
            if mark is not None and mark.log_id != end.log_id:
                name = f"{end.broker}~{mark.log_id[:DIGITS]}"
                _rename(work, table, end.broker, name, mark, end.log_id)
                renamed.setdefault(name, {})[table.name] = mark.log_id
        for table in work.topic_tables():
            work.check()
            mark = table.held().logs.get(end.broker)
            if mark is not None and mark.log_id != end.log_id:
                name = f"{end.broker}~{mark.log_id[:DIGITS]}"
                _rename_in_topic_table(work, table, end.broker, name, mark, end.log_id)
                renamed.setdefault(name, {})[table.path.name] = mark.log_id
    return Outcome({"renamed": renamed})


def _rename_holes(work: Work, broker: str, log_id: str) -> None:
    """Before any table says that it is done: else they would stay those of the new log, and hide what it lacks."""
    for table in work.tables():
        mark = read_progress(table.path(work.lake)).logs.get(broker)
        if mark is not None and mark.log_id != log_id:
            work.check()
            work.check_driver()
            rename_holes(work.lake, broker, f"{broker}~{mark.log_id[:DIGITS]}")
            work.bring_to_disk()
            return


def _rename(work: Work, table: LakeTable, broker: str, name: str, mark: LogMark, log_id: str) -> None:
    path = table.path(work.lake)
    work.forget_cached()
    work.check_driver()
    statement = f"UPDATE {sql_place(path)} SET broker = '{name}' WHERE broker = '{broker}'"  # noqa: S608 (names match)
    with turn_of(path):
        work.session.sql(statement).collect()
    found = read_progress(path)
    if found.logs.get(broker) != mark:
        raise LakeOutOfStep(f"{path}: somebody else adopts too")
    held = found.held.get(broker, 0)
    identifiers = {APPLICATION + broker: -1, APPLICATION + name: held, log_identifier(name, mark.log_id): 1}
    # Not after any other version: with a lake in a bucket another driver may have adopted the log, and gone on.
    append_identifiers(path, identifiers | replaced(broker, mark, log_id), read=found.version)


def _rename_in_topic_table(work: Work, table: TopicTable, broker: str, name: str, mark: LogMark, log_id: str) -> None:
    work.forget_cached()
    work.check_driver()
    statement = f"UPDATE {sql_place(table.path)} SET _broker = '{name}' WHERE _broker = '{broker}'"  # noqa: S608 (names match)
    with KEEPING, turn_of(table.path):  # to the end: a merge's commit would come in between
        work.session.sql(statement).collect()
        held = table.held()
        if held.logs.get(broker) != mark:
            raise LakeOutOfStep(f"{table.path}: somebody else adopts too")
        identifiers = {table.identifier(broker): -1, table.identifier(name): held.positions.get(broker, 0)}
        identifiers[log_identifier(name, mark.log_id)] = 1
        append_identifiers(table.path, identifiers | replaced(broker, mark, log_id), read=held.version)
