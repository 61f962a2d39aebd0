"""What is stored, and what it is called."""

from __future__ import annotations

from typing import NamedTuple

from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.read.row_reader import RowReader
from lakemq.storage.state.message_ids import MessageIds
from lakemq.storage.state.secret_ids import SecretIds


class Store(NamedTuple):
    """One broker's log, the reader of its rows, and the ids of its messages, receipts and transactions."""

    log: CommitLog
    reader: RowReader
    ids: MessageIds
    secret_ids: SecretIds
