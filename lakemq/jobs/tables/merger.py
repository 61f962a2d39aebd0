"""Merges files of one Delta table: chosen by `model.merging`, written without Spark, committed by Delta.

The commit says of each file that no data changes, so an append beside it is no conflict, streams pass it over, and
the table's progress stays. Who is killed before it leaves a file without a name, which VACUUM removes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from urllib.parse import unquote
from uuid import uuid4

from pyspark.sql import SparkSession

from lakemq.jobs.tables.delta_transactions import DeltaTransactions
from lakemq.jobs.tables.driver import Driver
from lakemq.jobs.tables.merged_add import add_of, is_ordered, may_be_merged, order_of, remove_of, rows_of, tier_of
from lakemq.jobs.tables.table import Layout
from lakemq.jobs.tables.table_log import action_of, delta_class
from lakemq.jobs.tables.turns import turn_of
from lakemq.model.errors import LakeUnreadable
from lakemq.model.merging import Limits, Merge, TableFile, merge_all, next_merge, unfinished
from lakemq.storage.disk.clock import SystemClock
from lakemq.storage.lake.live_files import Action, LiveFiles
from lakemq.storage.lake.merge_files import Input, merge_files, scratch_of
from lakemq.storage.lake.object_files import files_of


class Overtaken(Exception):
    """Others have replaced the files meanwhile, or the table: what was merged is of no use, and is gone."""


class TableMerger:
    """Of one table in a lake, which must be there. For who holds the lake's lock, and one thread at a time."""

    def __init__(
        self,
        session: SparkSession,
        layout: Layout,
        lake: Path,
        limits: Limits,
        stop: Callable[[], bool],
        driver: Driver,
    ) -> None:
        """`stop` is asked a few times a second while a merge is made; it is abandoned then. `driver`: in whose name
        it commits."""
        self._layout, self._limits, self._stop = layout, limits, stop
        self._path = layout.path
        self._scratch = scratch_of(lake)
        self._delta = _Delta(session, self._path, driver)
        self._live: LiveFiles | None = None
        self._changed = True

    def step(self) -> bool:
        """Merges some files, where there are enough of a tier; whether there were.

        Raises `Abandoned` when told to stop, and whatever reads, writes and commits raise: then the table is as it
        was, and a later call tries again.
        """
        with turn_of(self._path):
            live = self._catch_up()
            if not self._changed:
                return False
            for files in _by_partition(live, self._layout):
                merge = next_merge(files, self._limits)
                if merge is not None:
                    self._merge(live, merge)
                    return True
            self._changed = False
            return False

    def unfinished(self) -> int:
        """How many files `finish` would merge."""
        live = self._catch_up()
        return sum(unfinished(files, self._limits) for files in _by_partition(live, self._layout))

    def finish(self) -> None:
        """Merges what isn't done into as few files as may be, however few there are. Raises as `step`."""
        while merges := self._all_merges():
            for merge in merges:
                with turn_of(self._path):
                    live = self._catch_up()
                    if all(file.path in live.added for file in merge.files):
                        self._merge(live, merge)

    def _all_merges(self) -> list[Merge]:
        live = self._catch_up()
        return [merge for files in _by_partition(live, self._layout) for merge in merge_all(files, self._limits)]

    def _catch_up(self) -> LiveFiles:
        live = self._live
        if live is None:
            self._live = live = LiveFiles(self._path)
            self._changed = True
        elif live.catch_up():
            self._changed = True
        return live

    def _merge(self, live: LiveFiles, merge: Merge) -> None:
        replaced = [live.added[file.path] for file in merge.files]
        folder = Path(unquote(replaced[0]["path"])).parent
        output = folder / f"part-00000-{uuid4()}-c000.snappy.parquet"
        inputs = [Input(self._path / unquote(add["path"]), is_ordered(add)) for add in replaced]
        self._live = None  # what it says may be what is wrong, where something is
        made = merge_files(
            inputs, self._path / output, live.columns, self._layout.order_by, scratch=self._scratch, stop=self._stop
        )
        if made.rows != sum(rows_of(add) or 0 for add in replaced):
            files_of(self._path).remove(self._path / output)
            raise LakeUnreadable(f"the files {[file.path for file in merge.files]} don't have the rows that are said")
        now_ms = SystemClock().now_ms()
        added = add_of(str(output), made.bytes, made.rows, now_ms, merge.tier, replaced)
        # Who fails from here on may have committed all the same: the file stays, and VACUUM knows if it has a name.
        try:
            self._delta.commit(live, added, [remove_of(add, now_ms) for add in replaced])
        except Overtaken:  # before Delta was told of it: no log names it, and it may hold rows that have to go
            files_of(self._path).remove(self._path / output)
            raise
        self._live = live
        live.catch_up()


class _Delta:
    """Delta's own transactions on a table: on a local disk it keeps only those of one JVM apart."""

    def __init__(self, session: SparkSession, path: Path, driver: Driver) -> None:
        self._transactions = DeltaTransactions(session, path, driver)
        self._jvm = self._transactions.log.jvm

    def commit(self, live: LiveFiles, added: Action, removed: Sequence[Action]) -> None:
        """The one in place of the others. Raises `Overtaken` where some of them aren't in the table any more, or the
        folder holds another table by now, and as Delta does where that comes about now."""
        read_of = live.table_id
        self._follow(live, read_of)
        transaction = self._transactions.begin(live.version)
        self._follow(live, read_of)
        if transaction.snapshot().metadata().id() != read_of:
            raise _another(live)
        if any(each["path"] not in live.added for each in removed):
            raise Overtaken(f"another writer has replaced files of {live.table} that were being merged")
        nothing = self._transactions.log.nothing
        actions = nothing.appended(action_of(self._jvm, json.dumps({"add": added})))
        for each in removed:
            actions = actions.appended(action_of(self._jvm, json.dumps({"remove": each})))
        operation = delta_class(self._jvm, "DeltaOperations$Optimize")(
            nothing, nothing, True, self._transactions.log.none, False
        )
        transaction.commit(actions, operation)

    @staticmethod
    def _follow(live: LiveFiles, read_of: str) -> None:
        """Reads what came to the table that was read. Else another that is younger would be told of files of the old
        one, and hold its rows again."""
        if live.is_another():
            raise _another(live)
        live.catch_up()
        if live.table_id != read_of:
            raise _another(live)


def _another(live: LiveFiles) -> Overtaken:
    return Overtaken(f"{live.table} was deleted or made anew while files of it were being merged")


def _by_partition(live: LiveFiles, layout: Layout) -> list[list[TableFile]]:
    """The files that may be merged with one another. What waits in `scheduled` (no partition) is its writer's."""
    column = layout.partition_by
    found: list[tuple[str, TableFile]] = []
    for path, add in live.added.items():
        value = "" if column is None else (add.get("partitionValues") or {}).get(column)
        if value is not None and may_be_merged(add) and rows_of(add) is not None:
            order = order_of(add, layout.time_column)
            found.append((value, TableFile(path, int(add["size"]), tier_of(add), order)))
    found.sort(key=lambda each: each[0])
    return [[file for _, file in group] for _, group in groupby(found, key=lambda each: each[0])]
