"""Appends to one Delta table that carry their own progress, so that each row is there once.

A commit holds the new rows and, for each broker, a transaction identifier of Delta
(`lakemq-lake-{broker}` → the position after the last row): both or neither. What the table holds
is read from the table, and from nothing else.

Delta's public writer skips a batch whose version is already there, but does not notice when some
other writer moved the version between our look and our commit: a driver that was killed may still
have a commit under way in its JVM. So the commit is made through Delta's own transaction, which
has read the versions, and fails when another commit changed them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from lakemq.jobs.errors import LakeOutOfStep
from lakemq.jobs.tables.delta_transactions import DeltaTransactions
from lakemq.jobs.tables.driver import Driver
from lakemq.jobs.tables.table_log import action_of, delta_class
from lakemq.model.errors import LogReplaced
from lakemq.storage.lake.delta_log import APPLICATION
from lakemq.storage.lake.log_marks import LogMark, log_identifier
from lakemq.storage.lake.progress import Progress, advance, read_progress


class DeltaWriter:
    """The one writer of a table at `path`, which must exist. Not for several threads at once."""

    def __init__(
        self,
        session: SparkSession,
        path: Path,
        driver: Driver,
        logs: Mapping[str, str] | None = None,
    ) -> None:
        """`logs`: the id of each broker's log, which the commits say. `driver`: in whose name they are made."""
        self._logs = dict(logs or {})
        self._path = path
        self._jvm: Any = session._jvm  # pyright: ignore[reportPrivateUsage]
        self._transactions = DeltaTransactions(session, path, driver)
        self._known = Progress(-1, {})

    @property
    def progress(self) -> Progress:
        """What the last version holds that this has read or made."""
        return self._known

    def held(self, brokers: Iterable[str]) -> dict[str, int | None]:
        """The position up to which the table holds each broker's messages; None: nothing yet."""
        self._known = read_progress(self._path)
        return {broker: self._known.held.get(broker) for broker in brokers}

    def append(self, written: Sequence[str], ends: Mapping[str, int], epoch: int) -> None:
        """Commits files together with `ends`, the positions that the table then holds.

        `written`: Delta's actions that add files with just what the table lacks up to there. Raises
        `LakeOutOfStep`, with nothing written, when another writer has come in between since
        `held` or the last append, `LakeTaken` when another driver has, and `LogReplaced` when the table holds another
        log of a broker.
        """
        transaction = self._begin(ends)
        actions = self._no_actions()
        for action in written:
            actions = actions.appended(self.action(action))
        self._commit(transaction, actions, ends, epoch)

    def action(self, text: str) -> Any:
        """An action of Delta, of its JSON."""
        return action_of(self._jvm, text)

    def _begin(self, ends: Mapping[str, int]) -> Any:
        """A transaction of Delta that fails when another moves the progress of these brokers."""
        transaction = self._transactions.begin(self._known.version)
        self._check_unchanged(transaction.snapshot().version())
        for broker in ends:
            self._check_log(broker)
            mark = self._known.logs.get(broker)
            if mark is not None:  # nor of which log that is
                transaction.readTxn().append(log_identifier(broker, mark.log_id))
        return transaction

    def _check_log(self, broker: str) -> None:
        """What is committed is of the log that the table says."""
        mark, log_id = self._known.logs.get(broker), self._logs.get(broker)
        if mark is not None and log_id is not None and mark.log_id != log_id:
            raise LogReplaced(
                f"{self._path} holds the log {mark.log_id} of {broker}, and what is to be written is of {log_id}"
            )

    def _commit(self, transaction: Any, actions: Any, ends: Mapping[str, int], epoch: int) -> int:
        """Commits the actions with the progress; the version that this made."""
        new = self._new_logs(ends)
        identifiers = {APPLICATION + broker: end for broker, end in ends.items()}
        identifiers |= {log_identifier(broker, mark.log_id): mark.number for broker, mark in new.items()}
        try:
            version = self._transactions.append(transaction, actions, identifiers, epoch)
        except Py4JJavaError:
            self._check_unchanged(self._transactions.check().version())  # it says more of what was in the way
            raise
        self._known = Progress(version, self._known.held | dict(ends), self._known.logs | new)
        return version

    def _new_logs(self, brokers: Iterable[str]) -> dict[str, LogMark]:
        """Of the brokers whose log the table doesn't say yet."""
        known = self._known.logs
        return {each: LogMark(1, self._logs[each]) for each in brokers if each in self._logs and each not in known}

    def _no_actions(self) -> Any:
        return self._transactions.log.nothing

    def _check_unchanged(self, version: int) -> None:
        """Commits of others, such as OPTIMIZE, are fine as long as they leave the progress."""
        if version == self._known.version:
            return
        before = self._known
        self._known = advance(self._path, before, version)
        if (self._known.held, self._known.logs) != (before.held, before.logs):
            raise LakeOutOfStep(f"another lake query writes {self._path} at the same time")


def forget_cached_logs(session: SparkSession) -> None:
    """Has Delta look at the files again: a table may have been deleted or put back."""
    jvm: Any = session._jvm  # pyright: ignore[reportPrivateUsage]
    delta_class(jvm, "DeltaLog").clearCache()
