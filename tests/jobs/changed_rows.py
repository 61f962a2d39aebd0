"""Rows of a lake's tables that a test adds, changes or deletes: what takes a statement of Spark seconds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from lakemq.jobs.tables.new_file import NewFile
from lakemq.jobs.tables.tables import TABLES
from lakemq.storage.disk.clock import SystemClock
from lakemq.storage.lake.delta_log import entry_of
from lakemq.storage.lake.live_files import Action, LiveFiles
from lakemq.storage.lake.object_files import files_of

pc: Any = pyarrow.compute  # its functions are made at run time, unknown to type checkers

Change = Callable[[pa.Table], pa.Table]
_SCHEMAS = {table.name: table.schema for table in TABLES}
_COMMITS_MAX = 20


def change_rows(table: Path, change: Change) -> None:
    """Of each file whose rows `change` makes others of, another one takes the place."""

    def actions(live: LiveFiles) -> Iterator[Action]:
        for add in list(live.added.values()):
            rows = _rows_of(table, add)
            changed = change(rows)
            if not changed.equals(rows):
                yield _removed(add, data_change=True)
                yield from _added(table, changed, add)

    _commit(table, "UPDATE", actions)


def delete_rows(table: Path, **where: Any) -> None:
    """Delete the rows that have these values."""
    change_rows(table, lambda rows: rows.filter(pc.invert(_having(rows, where))))


def delete_rows_up_to(table: Path, position: int) -> int:
    """Delete the rows of that position and before; how many there were."""
    live = LiveFiles(table)
    gone = [pc.less_equal(_rows_of(table, add)["position"], position) for add in live.added.values()]
    change_rows(table, lambda rows: rows.filter(pc.greater(rows["position"], position)))
    return sum(pc.sum(each).as_py() or 0 for each in gone)


def set_values(table: Path, values: Mapping[str, Any], **where: Any) -> None:
    """Give these columns these values, in the rows that have those."""

    def change(rows: pa.Table) -> pa.Table:
        having = _having(rows, where)
        for name, value in values.items():
            field = rows.schema.field(name)
            column = pc.if_else(having, pa.scalar(value, field.type), rows[name])
            rows = rows.set_column(rows.schema.get_field_index(name), field, column)
        return rows

    change_rows(table, change)


def rows_having(table: Path, **where: Any) -> pa.Table:
    """The rows that have these values."""
    live = LiveFiles(table)
    found = pa.concat_tables([_rows_of(table, add) for add in live.added.values()])
    return found.filter(_having(found, where))


def append_rows(table: Path, rows: pa.Table, identifiers: Mapping[str, int] | None = None) -> None:
    """Add a file with these rows; the commit sets these transaction identifiers, too."""
    set_to = [{"txn": {"appId": name, "version": number}} for name, number in (identifiers or {}).items()]

    def actions(live: LiveFiles) -> Iterator[Action]:
        yield from set_to
        yield from _added(table, rows, next(iter(live.added.values()), {}))

    _commit(table, "WRITE", actions)


def put_into_one_file(table: Path) -> None:
    """One file takes the place of all, and no row changes: older versions have them in the others."""

    def actions(live: LiveFiles) -> Iterator[Action]:
        adds = list(live.added.values())
        rows = pa.concat_tables([_rows_of(table, add) for add in adds])
        yield from (_removed(add, data_change=False) for add in adds)
        for action in _added(table, rows, adds[0]):
            yield {"add": action["add"] | {"dataChange": False}}

    _commit(table, "OPTIMIZE", actions)


def _rows_of(table: Path, add: Action) -> pa.Table:
    assert not add.get("partitionValues"), "which are not in the file"
    rows = pq.ParquetFile(table / add["path"]).read()
    schema = _SCHEMAS.get(table.name)
    return rows if schema is None else rows.select(schema.names).cast(schema)


def _having(rows: pa.Table, where: Mapping[str, Any]) -> Any:
    masks = [pc.fill_null(pc.equal(rows[name], value), False) for name, value in where.items()]
    found = masks[0]
    for mask in masks[1:]:
        found = pc.and_(found, mask)
    return found


def _added(table: Path, rows: pa.Table, like: Action) -> Iterator[Action]:
    """The action that adds a file with these rows, and statistics of the columns of which that one has them."""
    if rows.num_rows == 0:
        return
    names = list(json.loads(like.get("stats") or "{}").get("minValues", {}))
    with NewFile(table, rows.schema, names) as file:
        for batch in rows.to_batches():
            file.write(batch)
        yield json.loads(file.close())


def _removed(add: Action, *, data_change: bool) -> Action:
    said = {"path": add["path"], "deletionTimestamp": SystemClock().now_ms(), "dataChange": data_change}
    return {"remove": {**said, "extendedFileMetadata": True, "partitionValues": {}, "size": add["size"]}}


def _commit(table: Path, operation: str, actions: Callable[[LiveFiles], Iterator[Action]]) -> None:
    """Those of the table as it is; once more where somebody else has committed meanwhile."""
    info = {"commitInfo": {"operation": operation, "operationParameters": {}, "engineInfo": "lakemq"}}
    for _ in range(_COMMITS_MAX):
        live = LiveFiles(table)
        content = b"".join(json.dumps(each).encode() + b"\n" for each in (info, *actions(live)))
        if files_of(table).create(entry_of(table, live.version + 1), content):
            return
    raise AssertionError(f"others commit to {table} all the time")
