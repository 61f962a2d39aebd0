"""Which positions may be given: only such as were reserved on disk before.

Who was told of a position, or of an offset in a queue, must never find another message there. So a bound
is on disk, `RESERVED`, below which positions may have been given; it is moved ahead of need, by blocks, in
a thread. A start that may have lost the log's tail goes on at the bound. Each message takes one position
and one offset of one queue: so no queue can have lost more offsets than the log lost positions.

A second mark, `WRITTEN`, says how far the log was written. It is never synced: it is as good as the
memory of the machine that runs on, and tells that a process which died has lost nothing.

Two more are for a log that follows another. `CONFIRMING` says in which epoch its leader tells nobody of what isn't
confirmed (`model/given.py`). `GIVEN` is also for one that has cut what that one lacks: up to where, and in which epoch,
positions that this log doesn't hold are known to have been given, by itself or by others. Who gives positions itself
goes on beyond these, or nobody was told of them: once `RESERVED` says what it may have given, `GIVEN` says no more than
that, and goes.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from crc32c import crc32c

from lakemq.model.given import is_own_end_enough
from lakemq.storage.disk.files import Files
from lakemq.storage.segment.frame import LogEpoch

logger = logging.getLogger(__name__)

RESERVED = "RESERVED"
WRITTEN = "WRITTEN"
GIVEN = "GIVEN"
CONFIRMING = "CONFIRMING"
BLOCK_MIN = 2**20
BLOCK_MAX = 2**26
BLOCK_S = 10.0
"""A block that is used up faster is followed by one twice as large."""
UNKNOWN_BLOCK = 2**32 - 1
"""So many positions are passed over where the bound is lost: far more than could have been given since."""
UNKNOWN_EPOCHS = 1000
"""So many epochs likewise."""

_RESERVED = struct.Struct("<16sIQ")
_WRITTEN = struct.Struct("<16s36sQ")
_SUM = struct.Struct("<I")


def write_reserved(files: Files, directory: Path, log: LogEpoch, bound: int) -> None:
    """Say that positions below `bound` may be given; on disk on return. Raises `OSError`."""
    files.replace(directory / RESERVED, [_sealed(_RESERVED.pack(*log, bound))])


class Reserved(NamedTuple):
    """Positions below `bound` may have been given, in `epoch` or before it."""

    epoch: int
    bound: int


def read_reserved(files: Files, directory: Path, log_id: bytes) -> Reserved | None:
    """What of that log may have been given, or None when it isn't known."""
    return _read_reserved(files, directory / RESERVED, log_id)


def _read_reserved(files: Files, path: Path, log_id: bytes) -> Reserved | None:
    data = _read(files, path, _RESERVED.size)
    if data is None:
        return None
    of_log, *reserved = _RESERVED.unpack(data)
    return Reserved(*reserved) if of_log == log_id else None


def note_given(files: Files, directory: Path, log: LogEpoch, bound: int) -> None:
    """Say that positions below `bound` were given, in that epoch or before it, whatever this log holds of them; what
    was said before stays said. On disk on return. Raises `OSError`."""
    known = read_given(files, directory, log.log_id) or Reserved(0, 0)
    given = Reserved(max(known.epoch, log.epoch), max(known.bound, bound))
    if given != known:
        files.replace(directory / GIVEN, [_sealed(_RESERVED.pack(log.log_id, *given))])


def read_given(files: Files, directory: Path, log_id: bytes) -> Reserved | None:
    """What of that log is known to have been given, or None."""
    return _read_reserved(files, directory / GIVEN, log_id)


def forget_given(files: Files, directory: Path, log: LogEpoch) -> None:
    """What is known to have been given beside this log is no matter any more, as it goes on beyond that, in that epoch,
    and `RESERVED` says so on disk. What was given in a later epoch stays said. On disk on return; raises `OSError`."""
    given = read_given(files, directory, log.log_id)
    if given is None or given.epoch > log.epoch:
        return
    files.remove(directory / GIVEN)
    files.sync_dir(directory)


def note_confirming(files: Files, directory: Path, log: LogEpoch) -> None:
    """Say that the leader of that epoch tells nobody of what isn't confirmed. On disk on return; raises `OSError`."""
    if read_confirming(files, directory, log.log_id) != log.epoch:
        files.replace(directory / CONFIRMING, [_sealed(_RESERVED.pack(*log, 0))])


def forget_confirming(files: Files, directory: Path) -> None:
    """This log is to go on though it may lack what is confirmed. On disk on return; raises `OSError`."""
    files.remove(directory / CONFIRMING)
    files.sync_dir(directory)


def read_confirming(files: Files, directory: Path, log_id: bytes) -> int | None:
    """The newest epoch of that log of which it is known that nobody was told of what isn't confirmed, or None."""
    known = _read_reserved(files, directory / CONFIRMING, log_id)
    return None if known is None else known.epoch


def read_written(files: Files, directory: Path, log_id: bytes) -> int | None:
    """How far that log was written, if the machine has run on since; None when that isn't known."""
    data = _read(files, directory / WRITTEN, _WRITTEN.size)
    if data is None:
        return None
    of_log, boot, position = _WRITTEN.unpack(data)
    return position if (of_log, boot) == (log_id, _boot(files)) else None


def may_have_given(
    files: Files, directory: Path, log: LogEpoch, end: int, memory_survives: bool, is_elected: bool = False
) -> Reserved:
    """What may have been given, and told to anybody, of a log that was found to end with `end`, in that epoch: no more
    than that where nothing can be lost. `memory_survives`: what was written outlives the process for as long as
    the machine runs. `is_elected`: as `is_own_end_enough` has it."""
    reserved = read_reserved(files, directory, log.log_id)
    confirming = read_confirming(files, directory, log.log_id)
    if reserved is None and is_own_end_enough(log.epoch, confirming, is_elected):
        return Reserved(log.epoch, end)
    given = read_given(files, directory, log.log_id)
    if given is not None and (given.bound > end or given.epoch > log.epoch):
        epoch, bound = (max(pair) for pair in zip(given, reserved or given, strict=True))
        logger.warning("other replicas have continued beyond this log's end: skipping %d more positions", UNKNOWN_BLOCK)
        return Reserved(max(epoch, log.epoch) + UNKNOWN_EPOCHS, max(bound, end) + UNKNOWN_BLOCK)
    if reserved is None or reserved.bound < end:
        logger.warning("it is not known which positions were given out: skipping %d of them", UNKNOWN_BLOCK)
        return Reserved(log.epoch + UNKNOWN_EPOCHS, end + UNKNOWN_BLOCK)
    written = read_written(files, directory, log.log_id)
    nothing_lost = memory_survives and written is not None and written <= end
    return Reserved(log.epoch, end) if nothing_lost else reserved


def _sealed(data: bytes) -> bytes:
    return data + _SUM.pack(crc32c(data))


def _read(files: Files, path: Path, size: int) -> bytes | None:
    try:
        data = files.read_whole(path)
    except FileNotFoundError:
        return None
    return data[:size] if len(data) == size + _SUM.size and _sealed(data[:size]) == data else None


def _boot(files: Files) -> bytes:
    return files.boot_id().encode()[:36].ljust(36)


class Positions:
    """The positions of one log that may be given. Lives on the log's event loop."""

    def __init__(self, files: Files, directory: Path, on_change: Callable[[bool], None]) -> None:
        """`on_change` is called when more positions are reserved, or can't be; with True if they can be again."""
        self._files = files
        self._directory = directory
        self._on_change = on_change
        self._block = BLOCK_MIN
        self._reserved_s = float("-inf")
        self._running = False
        self._closed = False
        self._mark: int | None = None
        self._forgets_given = False
        self.bound = 0
        self.failure: str | None = None

    def open(self, log: LogEpoch, end: int, loop: asyncio.AbstractEventLoop, is_beyond: bool) -> None:
        """Reserve a block from `end` on, where the log goes on; without room on the disk there is none, until
        `try_again`. `loop`: the log's; this may be called in another thread. `is_beyond`: nothing that anybody was told
        of was given from `end` on."""
        self._loop = loop
        self._forgets_given = is_beyond
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="reserve")
        self._log = log
        self.bound = end
        try:
            self._write(end + self._block)
        except OSError as error:
            self._fail(error)
        else:
            self.bound = end + self._block
        self._boot = _boot(self._files)
        self._mark = self._files.open_update(self._directory / WRITTEN)
        self._note_written(end)

    def ensure(self, end: int) -> bool:
        """Whether all positions below `end` may be given. When not, they are being reserved: `on_change`."""
        if end <= self.bound:
            return True
        self._reserve(end)
        return False

    def gave(self, end: int) -> None:
        """The positions below `end` are written; nobody has been told of the last ones yet."""
        self._note_written(end)
        if self.bound - end < self._block // 2:
            self._reserve(end)

    def _note_written(self, end: int) -> None:
        assert self._mark is not None
        try:
            self._files.write_at(self._mark, _sealed(_WRITTEN.pack(self._log.log_id, self._boot, end)), 0)
        except OSError as error:  # then a crash of the process may count as a loss
            logger.warning("can't store the written position: %s", error)

    def _reserve(self, end: int) -> None:
        if self._running or self._closed:
            return
        self._running = True
        now_s = self._loop.time()
        faster = now_s - self._reserved_s < BLOCK_S
        self._block = min(self._block * 2, BLOCK_MAX) if faster else max(self._block // 2, BLOCK_MIN)
        self._reserved_s = now_s
        bound = max(end, self.bound) + self._block
        task = self._loop.run_in_executor(self._pool, self._write, bound)
        task.add_done_callback(lambda done: self._finish(done, bound))

    def _write(self, bound: int) -> None:
        """Say on disk that positions below `bound` may be given; then `GIVEN` may go, and no sooner: a crash between
        the two leaves it, and the next start passes over more than it has to. In any thread; raises `OSError`."""
        write_reserved(self._files, self._directory, self._log, bound)
        if self._forgets_given:
            try:
                forget_given(self._files, self._directory, self._log)
            except OSError as error:  # it is tried again with the next block
                logger.warning(
                    ("can't delete the record of others' positions; the next start may skip positions: %s"), error
                )
            else:
                self._forgets_given = False

    def _finish(self, done: asyncio.Future[None], bound: int) -> None:
        self._running = False
        if self._closed:
            return
        error, failed_before = done.exception(), self.failure is not None
        if error is None:
            self.bound, self.failure = bound, None
        else:
            self._fail(error)
        self._on_change(failed_before and error is None)

    def _fail(self, error: BaseException) -> None:
        before, self.failure = self.failure, f"no positions can be reserved: {error}"
        if self.failure != before:
            logger.error("%s", self.failure)

    def try_again(self, end: int) -> str | None:
        """Why no positions could be reserved from `end` on, which is tried again then: `on_change`. None when they
        could."""
        if self.failure is not None:
            self._reserve(end)
        return self.failure

    @property
    def running(self) -> bool:
        """Whether positions are being reserved."""
        return self._running

    def settle(self, end: int) -> None:
        """The log ends with `end`, on disk: what was reserved beyond is free again."""
        try:
            write_reserved(self._files, self._directory, self._log, end)
        except OSError as error:
            logger.warning("can't return reserved positions; the next start skips them: %s", error)

    def close(self) -> None:
        """Give the file and the thread back."""
        if self._mark is not None and not self._closed:
            self._closed = True
            self._pool.shutdown(wait=True)
            self._files.close(self._mark)


class NoPositions(Positions):
    """Those of a log that gives none, as it follows another. There are no marks of its own: a primary that is
    begun with its folder knows nothing of what was given, and passes over far more than that, unless it was elected
    and the leader before told nobody of what wasn't confirmed."""

    def open(self, log: LogEpoch, end: int, loop: asyncio.AbstractEventLoop, is_beyond: bool) -> None:
        """Nothing is reserved, and what an earlier primary reserved says nothing any more. Raises `OSError`."""
        for name in (RESERVED, WRITTEN):
            self._files.remove(self._directory / name)
        self._files.sync_dir(self._directory)

    def gave(self, end: int) -> None:
        """It was another one who gave them."""

    def settle(self, end: int) -> None:
        """Nothing was reserved."""
