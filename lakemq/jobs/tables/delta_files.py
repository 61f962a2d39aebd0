"""The files of a Delta table, as a commit takes and gives them: what is in them by their statistics."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class DeltaFile:
    """One file of a table. `action` is Delta's own note of it, for a commit that removes it.

    `least_ms` and `greatest_ms` are bounds of the column of times that was asked for, in
    milliseconds since 1970.
    """

    action: Any
    rows: int
    least_ms: int
    greatest_ms: int


def files_of(actions: Iterable[Any], column: str, partition_by: str) -> list[DeltaFile]:
    """Those of the files that are in no partition (null), with the bounds of `column`."""
    found: list[DeltaFile] = []
    for action in actions:
        content = json.loads(action.json())["add"]
        if content["partitionValues"].get(partition_by) is None:
            stats = json.loads(content["stats"])
            low, high = stats["minValues"][column], stats["maxValues"][column]
            found.append(DeltaFile(action, stats["numRecords"], _milliseconds(low), _milliseconds(high)))
    return found


def list_files(snapshot: Any, column: str, partition_by: str) -> list[DeltaFile]:
    """As `files_of`, of all files of the table's version."""
    unpartitioned = snapshot.allFiles().filter(f"partitionValues['{partition_by}'] IS NULL")
    return files_of(unpartitioned.collectAsList(), column, partition_by)


def read_files(session: SparkSession, log: Any, snapshot: Any, files: Sequence[DeltaFile]) -> DataFrame:
    """The rows of just these files of the version."""
    jvm: Any = session._jvm  # pyright: ignore[reportPrivateUsage]
    actions = jvm.java.util.ArrayList()
    for file in files:
        actions.add(file.action)
    chosen = jvm.scala.jdk.javaapi.CollectionConverters.asScala(actions).toSeq()
    return DataFrame(log.createDataFrame(snapshot, chosen, False, jvm.scala.Option.empty()), session)


def _milliseconds(text: str) -> int:
    moment = datetime.fromisoformat(text)
    return int(moment.timestamp() * 1000 + 0.5)
