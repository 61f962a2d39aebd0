"""Small lakes for tests without Spark: tables of rows with progress, as the lake query's are."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from lakemq.storage.lake.certain import OF_MESSAGES
from lakemq.storage.lake.delta_log import APPLICATION

APP = APPLICATION + "broker-a"


def commit(lake: Path, begin: int, end: int, tables: tuple[str, ...] = OF_MESSAGES) -> None:
    """A batch: the positions from begin to end in a file a table, with the progress."""
    progress = CommitProperties(app_transactions=[Transaction(APP, end)])
    for name in tables:
        rows = pa.table({"position": pa.array(range(begin, end), pa.int64())})
        write_deltalake(lake / name, rows, mode="append", commit_properties=progress)


def positions(lake: Path, name: str) -> list[int]:
    """What a table holds."""
    return sorted(DeltaTable(lake / name).to_pyarrow_table()["position"].to_pylist())


def entry(lake: Path, name: str, version: int) -> Path:
    """The entry of that version."""
    return lake / name / "_delta_log" / f"{version:020}.json"


def newest_file(lake: Path, name: str) -> Path:
    """The data file of the last commit that has one. Not by its time: of two commits that may be the same."""
    for path in sorted((lake / name / "_delta_log").glob("*.json"), reverse=True):
        for line in path.read_text().splitlines():
            if "add" in (action := json.loads(line)):
                return lake / name / unquote(action["add"]["path"])
    raise AssertionError(f"no file was ever added to {name}")
