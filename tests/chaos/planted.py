"""A gateway with bugs in it, to show that the checker finds them: `PLANTED_BUGS=early,double python -m
tests.chaos.planted CLOCK_FILE`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from lakemq import settings
from lakemq.gateway import serve
from lakemq.gateway.routing import deliveries
from lakemq.gateway.routing.executor import Executor
from lakemq.gateway.routing.inner_wheel import InnerWheel
from lakemq.model.errors import LakemqError
from lakemq.storage import lost_tail
from lakemq.storage.commit_log import CommitLog
from lakemq.storage.files import Files
from lakemq.storage.flush_mark import NAME as FLUSHED
from lakemq.storage.frame import LogEpoch
from lakemq.storage.group_state import GroupState
from lakemq.storage.positions import Reserved
from lakemq.storage.recovery import list_segments
from lakemq.storage.scan import scan
from lakemq.testing.clocks import FileClock

DROPPED_FRAMES = 20
EARLY_MS = 100


def early(_: Path) -> None:
    """Delayed messages are due before they are: by so much that a busy machine is not late as much again."""
    add = InnerWheel.add

    def add_early(self: InnerWheel, due_ms: int, causes: Iterable[int]) -> None:
        add(self, due_ms - EARLY_MS, causes)

    InnerWheel.add = add_early
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
    open_log: Any = CommitLog.open

    def open_and_forget(self: CommitLog, *others: Any) -> Any:
        opened = open_log(self, *others)
        groups: GroupState = self.state.groups
        for group in groups:
            group.offsets.clear()
        return opened

    setattr(CommitLog, "open", open_and_forget)  # noqa: B010  its type is another


def frame(directory: Path) -> None:
    """A start drops the log's last frames, though they are whole."""
    files = Files()
    for segment in list_segments(files, directory)[-1:]:
        frames = [(at, meta) for at, meta, _ in scan(segment, 0, segment.path.stat().st_size)]
        if len(frames) > DROPPED_FRAMES:
            os.truncate(segment.path, frames[-DROPPED_FRAMES][0])
            segment.index_path.unlink(missing_ok=True)
            (directory / FLUSHED).unlink(missing_ok=True)


def reuse(_: Path) -> None:
    """A start goes on right where the log ends, whatever was given."""

    def nothing_more(files: Files, directory: Path, log: LogEpoch, end: int, memory_survives: bool) -> Reserved:
        return Reserved(log.epoch, end)

    lost_tail.may_have_given = nothing_more


def sync(_: Path) -> None:
    """The log's data is not synced."""

    def sync_nothing(self: Files, descriptor: int) -> None:
        pass

    Files.sync = sync_nothing


BUGS: dict[str, Callable[[Path], None]] = {
    "early": early, "double": double, "offset": offset, "frame": frame, "reuse": reuse, "sync": sync,
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
