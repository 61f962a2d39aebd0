"""What is stored, and what it is called."""

from __future__ import annotations

from typing import NamedTuple

from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.read.plans import Plans
from lakemq.storage.read.row_reader import RowReader
from lakemq.storage.state.message_ids import MessageIds
from lakemq.storage.state.secret_ids import SecretIds


class Store(NamedTuple):
    """One broker's log, the reader of its rows, the ids of its messages, receipts and transactions, and the plans of
    what is read."""

    log: CommitLog
    reader: RowReader
    ids: MessageIds
    secret_ids: SecretIds
    plans: Plans

    @classmethod
    def of(cls, log: CommitLog, broker: str) -> Store:
        """What belongs to that broker's log."""
        reader, ids = RowReader(log), MessageIds(broker)
        return cls(log, reader, ids, SecretIds(ids), Plans(reader))
