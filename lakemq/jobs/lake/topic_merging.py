"""Merges files of topics' own tables: up to a hundred, of which each may get a file every half minute."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from threading import Lock

from lakemq.jobs.tables.merger import TableMerger
from lakemq.model.merge_turns import MergeTurns
from lakemq.storage.lake.merge_files import Abandoned

PAUSE_S = 2.0
"""At least so long between two merges: at most 30 a minute, of at most 64 files each."""

logger = logging.getLogger(__name__)


class TopicMerging:
    """`written` may be called by any thread, the rest by the one that merges. Of a table nothing is kept in memory
    between two looks but how many files it got."""

    def __init__(self, merger_of: Callable[[Path], TableMerger], files: int) -> None:
        """`merger_of` the table at a path. `files`: after how many new files a table is looked at."""
        self._merger_of = merger_of
        self._turns = MergeTurns(files, PAUSE_S)
        self._lock = Lock()

    def written(self, table: Path) -> bool:
        """A file was added to the table, or it is first known; whether it is due."""
        with self._lock:
            return self._turns.written(str(table))

    def wait_s(self) -> float | None:
        """How long `step` has nothing to do; None: until a table is due."""
        with self._lock:
            return self._turns.wait_s(time.monotonic())

    def step(self) -> bool:
        """Looks at one table, and merges files of it where there are enough; whether another can be looked at without
        a pause. What fails is logged, and the table is looked at again when it got more files."""
        began_s = time.monotonic()
        with self._lock:
            table = self._turns.take(began_s)
        if table is None:
            return False
        try:
            if not self._merger_of(Path(table)).step():
                return True
            with self._lock:
                self._turns.merged(table, began_s, time.monotonic())
        except Abandoned:
            pass
        except Exception as error:  # noqa: BLE001 (of any kind: the other tables' merges go on)
            line = (str(error).splitlines() or [type(error).__name__])[0][:500]
            name = Path(table).name
            logger.warning("can't merge files of table %s: %s; retrying when it has more files", name, line)
            with self._lock:
                self._turns.rest(began_s, time.monotonic())
        return False
