"""Appends to a topic's own table that carry how far it is, so that each message is there once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from lakemq.jobs.errors import LakeOutOfStep
from lakemq.jobs.tables.delta_transactions import DeltaTransactions
from lakemq.jobs.tables.driver import Driver
from lakemq.jobs.tables.table_log import action_of
from lakemq.jobs.tables.topic_table import LIFE, Held, TopicTable
from lakemq.storage.lake.log_marks import LogMark, log_identifier


class TopicWriter:
    """The one writer of a table that is there. Not for several threads at once."""

    def __init__(self, session: SparkSession, table: TopicTable, driver: Driver) -> None:
        self._table = table
        self._jvm: Any = session._jvm  # pyright: ignore[reportPrivateUsage]
        self._transactions = DeltaTransactions(session, table.path, driver)

    def append(self, action: str | None, ends: Mapping[str, int], logs: Mapping[str, str], known: Held) -> Held:
        """Commits a file (Delta's action that adds it; None: there is nothing to add) with `ends`, up to where the
        table holds each broker's messages then; what it holds then. `logs`: by broker the id of its log, which the
        commit says where the table doesn't yet.

        `known` is what the caller went by: raises `LakeOutOfStep`, with nothing written, where the table says
        something else by now; as Delta does where that comes about meanwhile; `LakeTaken`.
        """
        transaction = self._transactions.begin(known.version)
        snapshot = transaction.snapshot()
        held = self._table.held(int(snapshot.version()))
        said_life = snapshot.metadata().configuration().get(LIFE)
        life = said_life.get() if said_life.isDefined() else None
        # What an earlier life's identifiers say stays in the table, and counts no more.
        if (life, held.positions, held.logs) != (self._table.life, known.positions, known.logs):
            raise LakeOutOfStep(f"another writer has changed {self._table.path}")
        said = {self._table.identifier(broker): end for broker, end in ends.items()}
        new = {broker: logs[broker] for broker in ends if logs.get(broker) and broker not in held.logs}
        said |= {log_identifier(broker, log_id): 1 for broker, log_id in new.items()}
        actions = self._transactions.log.nothing
        if action is not None:
            actions = actions.appended(action_of(self._jvm, action))
        version = self._transactions.append(transaction, actions, said)
        marks = {broker: LogMark(1, log_id) for broker, log_id in new.items()}
        return Held(version, {**held.positions, **ends}, {**held.logs, **marks})
