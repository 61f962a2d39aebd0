"""Keeps topics' own Delta tables: rows of `messages`, decoded once, in the tables of those topics that are to have one.

What a table lacks is read from `messages` as the lake query commits it, so history and what comes are one and the same:
a new table, one that begins anew and one whose job was away for a week catch up in bounded steps. The table says itself
how far it is (`topic_table`), so each message is there once, whatever is killed when.

Nothing is done while no topic is to have a table. Else, after a batch, the files that it added are looked at by their
statistics; where a topic may have something in them, they are read, and what is found is written and committed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from pyspark.sql import SparkSession

from lakemq.jobs.errors import LakeOutOfStep, LakeTaken
from lakemq.jobs.tables.driver import Driver
from lakemq.jobs.tables.file_bounds import FileBounds
from lakemq.jobs.tables.tables import MESSAGES
from lakemq.jobs.tables.topic_file import TopicFile, Written, write_files
from lakemq.jobs.tables.topic_table import Held, TopicTable, make_topic_table
from lakemq.jobs.tables.topic_writer import TopicWriter
from lakemq.jobs.tables.turns import KEEPING
from lakemq.model.schema import SchemaVersion, parse_schema
from lakemq.model.topic_step import Bounds, Range, next_step
from lakemq.storage.lake.progress import Progress

TABLES_MAX = 100
"""So many topics have one, the first by name; more are a warning."""
PAUSE_S = 30.0
"""Between two rounds where nothing is left to catch up with: each makes a commit of each table that something came
to, and a small file."""
SEEN_MAX = 100_000
"""So many messages of other topics are looked through before a table says that it needs none of them."""

_POOL = "maintenance"
_GROUP = "topic tables"
_LOOK_S = 0.5
_STOP_S_MAX = 20.0
_PAUSE_S_MAX = 600.0

Versions = tuple[SchemaVersion, ...]

logger = logging.getLogger(__name__)


class _Kept:
    """A table that is there with the columns of these versions. `looked`: up to where each broker's messages have been
    looked through, which may be more than the table says."""

    def __init__(self, table: TopicTable, versions: Versions, writer: TopicWriter, held: Held) -> None:
        self.table, self.versions, self.writer, self.held = table, versions, writer, held
        self.looked = dict(held.positions)

    def is_far(self, looked: Range) -> bool:
        """Whether the table is to say that it has been looked through so far, though there was nothing for it."""
        return looked.high - self.held.positions.get(looked.broker, 0) >= SEEN_MAX


class _Plan(NamedTuple):
    """What a round does for a table. `more`: something is left for the next one."""

    kept: _Kept
    file: TopicFile
    more: bool


class TopicTablesKept:
    """One thread, from `start` to `stop`, within the life of one run of the lake query. What fails is logged, and tried
    again after a pause: neither the lake query nor the other tables wait for it."""

    def __init__(
        self,
        session: SparkSession,
        lake: Path,
        driver: Driver,
        wanted: Callable[[], Mapping[str, Versions]],
        progress: Callable[[], Progress],
        made: Callable[[], None],
        written: Callable[[Path], None],
    ) -> None:
        """`wanted`: the topics that are to have one, with their schemas. `progress`: of `messages`, of a version that
        is there. `made` is called when there is a new table, `written` when
        one is first known and after each file that was added to it."""
        self._session, self._lake, self._driver = session, lake.absolute(), driver
        self._wanted, self._progress, self._made, self._written = wanted, progress, made, written
        self._kept: dict[str, _Kept] = {}
        self._failures: dict[str, int] = {}
        self._again_s: dict[str, float] = {}
        self._files: FileBounds | None = None
        self._wake = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="topic tables", daemon=True)

    def start(self) -> None:
        """Begins with what an earlier run has left."""
        self._wake.set()
        self._thread.start()

    def wake(self) -> None:
        """To be called after each batch, and where schemas may have changed; returns at once."""
        self._wake.set()

    def stop(self) -> bool:
        """Ends the round that is under way: the tables stay as they were, or as its commits have made them. Whether it
        has ended."""
        self._stopped.set()
        self._wake.set()
        give_up = time.monotonic() + _STOP_S_MAX
        while self._thread.is_alive() and time.monotonic() < give_up:
            self._session.sparkContext.cancelJobGroup(_GROUP)  # again: it may have begun one more
            self._thread.join(1.0)
        return not self._thread.is_alive()

    def _run(self) -> None:
        context = self._session.sparkContext
        context.setLocalProperty("spark.scheduler.pool", _POOL)
        context.setJobGroup(_GROUP, _GROUP, interruptOnCancel=True)
        while not self._stopped.is_set():
            self._wake.wait()
            self._wake.clear()
            try:
                while not self._stopped.is_set() and self.round():
                    pass
            except LakeTaken as error:
                logger.warning("the tables of topics are no longer kept: %s", error.detail)
                return
            except Exception as error:  # noqa: BLE001 (of any kind: the lake query goes on)
                if not self._stopped.is_set():
                    logger.warning("the tables of topics don't follow: %s; again after the next batch", _line(error))
            if self._kept or self._again_s:
                self._stopped.wait(PAUSE_S)
            if self._again_s:
                self._wake.set()

    def round(self) -> bool:
        """Brings each table a step on; whether there is more to do at once. Raises `LakeTaken`, and what a look at
        `messages` raises; what a table fails with is logged, and it is left alone for a while."""
        wanted = self._now_wanted()
        if not wanted:
            self._files = None
            return False
        self._driver.check_now()
        while not KEEPING.acquire(timeout=_LOOK_S):  # an erasure may hold it for minutes
            if self._stopped.is_set():
                return False
        try:
            return self._keep(wanted)
        finally:
            KEEPING.release()

    def _keep(self, wanted: Mapping[str, Versions]) -> bool:
        """A round, in its turn."""
        progress, files = self._progress(), self._look()
        plans: dict[str, _Plan] = {}
        for topic, versions in wanted.items():
            with _Guard(self, topic):
                plan = self._plan(topic, versions, progress, files)
                if plan is None:
                    self._went_well(topic)
                else:
                    plans[topic] = plan
        written = write_files(self._session, {topic: plan.file for topic, plan in plans.items()})
        for topic, plan in plans.items():
            with _Guard(self, topic):
                self._commit(plan, progress, written[topic])
                self._went_well(topic)
        return any(plan.more for topic, plan in plans.items() if topic not in self._again_s)

    def _now_wanted(self) -> dict[str, Versions]:
        wanted = self._wanted()
        if len(wanted) > TABLES_MAX:
            logger.warning("%d topics are to have a Delta table; %d of them have one", len(wanted), TABLES_MAX)
        names = sorted(wanted)[:TABLES_MAX]
        for known in (self._kept, self._failures, self._again_s):
            for gone in known.keys() - names:
                del known[gone]
        now_s = time.monotonic()
        return {name: wanted[name] for name in names if now_s >= self._again_s.get(name, 0.0)}

    def _look(self) -> list[Bounds]:
        """The files of `messages`, of its last version: they have all that its progress says."""
        files, self._files = self._files, None  # what it says may be what is wrong, where something is
        files = files or FileBounds(MESSAGES.path(self._lake))
        found = files.now()
        self._files = files
        return found

    def _plan(self, topic: str, versions: Versions, progress: Progress, files: list[Bounds]) -> _Plan | None:
        """What comes next for the table, which is made where there is none; None: nothing."""
        kept = self._kept.get(topic)
        if kept is None or kept.versions != versions:
            kept = self._kept[topic] = self._made_for(topic, versions)
        for broker, mark in kept.held.logs.items():
            if broker in progress.logs and progress.log_id(broker) != mark.log_id:
                raise LakeOutOfStep(
                    f"it has another log of {broker} than `messages` has: `lakemq lake adopt` mends that"
                )
        ranges = [
            Range(broker, kept.looked.get(broker, 0), end)
            for broker, end in progress.held.items()
            if kept.looked.get(broker, 0) < end
        ]
        steps = [next_step(files, topic, each) for each in ranges]
        for step in steps:
            if not step.files:
                kept.looked[step.range.broker] = step.range.high
        chosen = tuple(step.range for step in steps if step.files or kept.is_far(step.range))
        if not chosen:
            return None
        paths = dict.fromkeys(path for step in steps for path in step.files)
        folder = MESSAGES.path(self._lake)
        size = sum(each.size for each in files if each.path in paths)
        chosen_files = tuple(folder / unquote(path) for path in paths)
        file = TopicFile(topic, versions, chosen, chosen_files, size, kept.table.path)
        return _Plan(kept, file, any(each.high < progress.held[each.broker] for each in chosen))

    def _made_for(self, topic: str, versions: Versions) -> _Kept:
        current = versions[-1]
        columns = parse_schema(current.type, current.text).columns
        table, is_new = make_topic_table(self._session, self._lake, topic, columns)
        if is_new:
            self._made()
        self._written(table.path)
        return _Kept(table, versions, TopicWriter(self._session, table, self._driver), table.held())

    def _commit(self, plan: _Plan, progress: Progress, written: Written) -> None:
        if written.error is not None:
            raise LakeOutOfStep(written.error)
        kept, ranges = plan.kept, plan.file.ranges
        ends = {each.broker: each.high for each in ranges}
        if written.action is not None or any(kept.is_far(each) for each in ranges):
            logs = {broker: progress.log_id(broker) for broker in ends}
            try:
                kept.held = kept.writer.append(written.action, ends, logs, kept.held)
            except LakeOutOfStep:  # the table may be gone: Delta makes none anew in a folder that has a file
                written.discard(kept.table.path)
                raise
        if written.action is not None:
            self._written(kept.table.path)
        kept.looked.update(ends)

    def failed(self, topic: str, error: Exception) -> None:
        """Leaves the table alone for a while; what it holds is read again then."""
        self._kept.pop(topic, None)
        failures = self._failures[topic] = self._failures.get(topic, 0) + 1
        pause_s = min(2.0**failures, _PAUSE_S_MAX)
        self._again_s[topic] = time.monotonic() + pause_s
        if not self._stopped.is_set():
            logger.warning("the table of topic %s is not kept: %s; again in %d s", topic, _line(error), pause_s)

    def _went_well(self, topic: str) -> None:
        self._failures.pop(topic, None)
        self._again_s.pop(topic, None)


class _Guard:
    """What is done for one topic's table: others go on where it fails. A driver that is replaced ends them all."""

    def __init__(self, tables: TopicTablesKept, topic: str) -> None:
        self._tables, self._topic = tables, topic

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Exception) or isinstance(error, LakeTaken):
            return False
        self._tables.failed(self._topic, error)
        return True


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:500]
