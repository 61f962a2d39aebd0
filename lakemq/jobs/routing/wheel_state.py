"""The wheel's state: what waits in one window of time, as one blob of entries.

A state of `applyInPandasWithState` goes to Python and back with the rows, as Arrow. `transformWithState` asks for each
of its values over a socket, and Spark 4.2 leaves that socket open after each batch.
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


def due_entries(rows: DataFrame) -> DataFrame:
    """Of `wheel_rows`, the entries that are due as of each batch, with the columns of `Due` and their broker; what is
    not due yet, and not ended, waits in the query's state."""
    grouped: Any = rows.groupBy(*KEY)
    return grouped.applyInPandasWithState(_turn, _DUE, "entries binary", "append", GroupStateTimeout.NoTimeout)


def _turn(key: tuple[Any, ...], frames: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    kept = _kept(state)
    waiting, ended, until_ms = [kept], [np.empty(0, "<i8")], -1
    for frame in frames:
        kinds = frame["kind"].to_numpy()
        waiting.append(_entries(frame)[kinds > Entry.CLOCK])
        ended.append(frame["cause"].to_numpy()[kinds == Entry.ENDED])
        until_ms = max(until_ms, int(frame["until_ms"].max()))
    entries = np.concatenate(waiting)
    due, left = turn(entries, np.concatenate(ended), until_ms)
    if len(left) != len(kept) or len(entries) != len(kept):
        _keep(state, left)
    if len(due):
        yield pd.DataFrame({"broker": key[0], **{name: due[name] for name in DUE_COLUMNS}})


def turn(entries: Any, ended: Any, until_ms: int) -> tuple[Any, Any]:
    """`(due, left)` of a window's entries, of which the causes in `ended` are over whatever the time: what is looked
    at by `until_ms`, and what goes on waiting. An end without an entry leaves nothing."""
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
