"""A gateway with bugs in it, to show that the checker finds them: `PLANTED_BUGS=early,double python -m
tests.chaos.planted CLOCK_FILE`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lakemq import settings
from lakemq.gateway import serve
from lakemq.gateway.effects.executor import Executor
from lakemq.gateway.receipts.acknowledger import EXPIRED, OK, Acknowledger
from lakemq.gateway.routing import deliveries
from lakemq.gateway.routing.deliveries import Deliveries
from lakemq.gateway.routing.transactions import Transactions
from lakemq.model.errors import LakemqError
from lakemq.model.names import DECISION_TOPIC
from lakemq.storage.disk.files import Files
from lakemq.storage.log import lost_tail
from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.log.flush_mark import NAME as FLUSHED
from lakemq.storage.log.positions import Reserved
from lakemq.storage.log.recovery import list_segments
from lakemq.storage.segment.frame import LogEpoch
from lakemq.storage.segment.scan import scan
from lakemq.storage.segment.segment import Segment
from lakemq.storage.state.group_state import GroupState
from lakemq.storage.state.topics import TopicTable
from lakemq.testing.clocks import FileClock

DROPPED_FRAMES = 20
EARLY_MS = 100
NEVER = 2**62
ENDS_AT_BYTES = 20_000
ENDED = 7


def early(_: Path) -> None:
    """Delayed messages are due before they are: by so much that a busy machine is not late as much again."""
    now_ms = Deliveries.now_ms
    Deliveries.now_ms = lambda self: now_ms(self) + EARLY_MS
    split: Any = getattr(deliveries, "_split")  # noqa: B009  pyright calls it private
    setattr(deliveries, "_split", lambda parts, now_ms: split(parts, now_ms + EARLY_MS))  # noqa: B010


def double(_: Path) -> None:
    """Each effect, a commit's too, is written twice."""
    execute: Any = Executor.execute

    async def execute_twice(self: Executor, effects: Any, *others: Any, **options: Any) -> Any:
        again = [(None, row, queue) for _, row, queue in effects]
        return (await execute(self, [*effects, *again], *others, **options))[: len(effects)]

    Executor.execute = execute_twice


def offset(_: Path) -> None:
    """Committed offsets are forgotten by a start."""

    def forget(log: CommitLog) -> None:
        groups: GroupState = log.state.groups
        for group in groups:
            group.offsets.clear()

    _after_open(forget)


def _after_open(spoil: Callable[[CommitLog], object]) -> None:
    open_log: Any = CommitLog.open

    def open_and_spoil(self: CommitLog, *others: Any, **options: Any) -> Any:
        opened = open_log(self, *others, **options)
        spoil(self)
        return opened

    setattr(CommitLog, "open", open_and_spoil)  # noqa: B010  its type is another


def delays(_: Path) -> None:
    """A start forgets the messages that wait."""
    _after_open(lambda log: log.routing.delays.clear())


def halves(_: Path) -> None:
    """A start takes the transactions that are open for committed."""

    def commit_all(log: CommitLog) -> None:
        transactions = log.routing.transactions
        for half in list(transactions.over(NEVER, 0, 0)):
            transactions.resolve(half.origin, "commit", half.stored_ms)

    _after_open(commit_all)


def commits(_: Path) -> None:
    """What is committed goes to a topic that nobody reads."""
    copy: Any = getattr(Transactions, "_copy")  # noqa: B009  pyright calls it private

    def copy_elsewhere(self: Transactions, *others: Any) -> Any:
        row, queue = copy(self, *others)
        topics: TopicTable = self._executor.log.topics  # pyright: ignore[reportPrivateUsage]
        return row, queue if topics.find(DECISION_TOPIC) is None else topics.queue(DECISION_TOPIC, 0)

    setattr(Transactions, "_copy", copy_elsewhere)  # noqa: B010


def receipts(_: Path) -> None:
    """Receipts that are over, or were lost, work."""
    status = Acknowledger.status

    def status_of_any(self: Acknowledger, group: str, receipt: int) -> str:
        found = status(self, group, receipt)
        return OK if found == EXPIRED else found

    Acknowledger.status = status_of_any
    Acknowledger.status_of_other = lambda self, receipt: OK


def _segments(directory: Path) -> list[Segment]:
    """Those of a log that may not have begun yet."""
    return list_segments(Files(), directory) if directory.is_dir() else []


def frame(directory: Path) -> None:
    """A start drops the log's last frames, though they are whole."""
    for segment in _segments(directory)[-1:]:
        frames = [(at, meta) for at, meta, _ in scan(segment, 0, segment.path.stat().st_size)]
        if len(frames) > DROPPED_FRAMES:
            os.truncate(segment.path, frames[-DROPPED_FRAMES][0])
            segment.index_path.unlink(missing_ok=True)
            (directory / FLUSHED).unlink(missing_ok=True)


def reuse(_: Path) -> None:
    """A start goes on right where the log ends, whatever was given."""

    def nothing_more(files: Files, directory: Path, log: LogEpoch, end: int, *_: bool) -> Reserved:
        return Reserved(log.epoch, end)

    lost_tail.may_have_given = nothing_more


def sync(_: Path) -> None:
    """The log's data is not synced."""

    def sync_nothing(self: Files, descriptor: int) -> None:
        pass

    Files.sync = sync_nothing


def refuse(directory: Path) -> None:
    """It starts once only."""
    if _segments(directory):
        sys.exit("it does not start again")


def end(directory: Path) -> None:
    """It ends by itself once there is enough in it."""
    write: Any = Files.append

    def write_and_end(self: Files, *others: Any) -> Any:
        segments = _segments(directory)
        if segments and segments[-1].path.stat().st_size > ENDS_AT_BYTES:
            os.write(2, b"ends with exit code %d\n" % ENDED)  # in a start nobody is told the code
            os._exit(ENDED)
        return write(self, *others)

    setattr(Files, "append", write_and_end)  # noqa: B010


BUGS: dict[str, Callable[[Path], None]] = {
    "early": early, "double": double, "offset": offset, "frame": frame, "reuse": reuse, "sync": sync,
    "delays": delays, "halves": halves, "commits": commits, "receipts": receipts, "refuse": refuse, "end": end,
}  # fmt: skip


def main() -> None:
    """The gateway."""
    loaded = settings.load()
    for name in os.environ["PLANTED_BUGS"].split(","):
        BUGS[name](loaded.storage.data_dir / "commitlog")
    try:
        serve(loaded, FileClock(Path(sys.argv[1])))
    except LakemqError as error:
        sys.exit(f"lakemq gateway: {error.detail}")


if __name__ == "__main__":
    main()
