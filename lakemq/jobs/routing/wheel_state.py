"""The wheel's state: for each window (`KEY`), the entries that wait in it, as one blob.

`applyInPandasWithState` passes the state to Python and back together with the rows, as Arrow. `transformWithState`
asks for each value over a socket, and Spark 4.2 leaves that socket open after each batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from lakemq.jobs.routing.wheel_rows import KEY
from lakemq.model.wheel import Entry

_ENTRY = np.dtype(
    [("cause", "<i8"), ("at_ms", "<i8"), ("due_ms", "<i8")]
    + [(name, "<i4") for name in ("kind", "times", "most", "level")]
)
_DUE = "broker string, kind int, cause bigint, due_ms bigint, times int, most int, level int"
DUE_COLUMNS = ("kind", "cause", "due_ms", "times", "most", "level")
"""The fields of `lakemq.model.wheel.Due`, in their order."""


def due_entries(rows: DataFrame) -> DataFrame:
    """Of `wheel_rows`, the entries that are due as of each batch: their broker, and `DUE_COLUMNS`. Entries that are
    neither due nor ended stay in the query's state."""
    grouped: Any = rows.groupBy(*KEY)
    return grouped.applyInPandasWithState(_turn, _DUE, "entries binary", "append", GroupStateTimeout.NoTimeout)


def _turn(key: tuple[Any, ...], frames: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """One window in one batch. Spark calls it only for windows with rows in this batch: hence the `CLOCK` rows."""
    kept = _kept(state)
    waiting, ended, until_ms = [kept], [np.empty(0, "<i8")], -1
    for frame in frames:
        kinds = frame["kind"].to_numpy()
        waiting.append(_entries(frame)[kinds > Entry.CLOCK])
        ended.append(frame["cause"].to_numpy()[kinds == Entry.ENDED])
        until_ms = max(until_ms, int(frame["until_ms"].max()))
    entries = np.concatenate(waiting)
    due, left = _divide(entries, np.concatenate(ended), until_ms)
    if len(left) != len(kept) or len(entries) != len(kept):
        _keep(state, left)
    if len(due):
        yield pd.DataFrame({"broker": key[0], **{name: due[name] for name in DUE_COLUMNS}})


def _divide(entries: Any, ended: Any, until_ms: int) -> tuple[Any, Any]:
    """`(due, left)`: the entries that are looked at by `until_ms`, and those that stay. Entries whose causes have
    `ended` are in neither, whatever their time. An end without an entry leaves nothing behind."""
    if len(ended):
        entries = entries[~np.isin(entries["cause"], ended)]
    is_due = entries["at_ms"] <= until_ms
    return entries[is_due], entries[~is_due]


def _entries(frame: pd.DataFrame) -> Any:
    entries = np.empty(len(frame), _ENTRY)
    for name in _ENTRY.names or ():
        entries[name] = frame[name].to_numpy()
    return entries


def _kept(state: GroupState) -> Any:
    return np.frombuffer(bytes(state.get[0]), _ENTRY) if state.exists else np.empty(0, _ENTRY)


def _keep(state: GroupState, entries: Any) -> None:
    if len(entries):
        state.update((entries.tobytes(),))
    elif state.exists:
        state.remove()
