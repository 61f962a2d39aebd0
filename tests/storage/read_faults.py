"""A broker whose disk refuses to read, in any call that reads: files, their lengths, names in folders.

`make crash ARGS="--parts reads"` is the long form.
"""

from __future__ import annotations

import errno
import random
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from lakemq.model.errors import LakemqError, LogDamaged
from tests.storage.ledger import Broken, Fate
from tests.storage.power_cuts import TOPIC, Machine

T = TypeVar("T")
ERRORS = (errno.EIO, errno.ENOSPC, errno.EMFILE)
CODES = {"busy", "store_unwritable"}
"""What a client is told: try again."""
STEP = 619
"""A prime: any some seeds are of calls far from one another."""


class ReadingMachine(Machine):
    """A machine that reads much, from its disk, and holds each error against what a client may be told."""

    def __init__(self, root: Path, seed: int) -> None:
        super().__init__(root, seed)
        storage = self._settings.storage.model_copy(update={"cache_bytes": 0})
        self._settings = self._settings.model_copy(update={"storage": storage})
        self._is_open = False

    def live_with_faults(self, script: Callable[[], Awaitable[None]]) -> None:
        """`live`, but the start may be refused, and never for damage. Raises `Broken`."""
        try:
            self.live(script)
        except Broken as broken:
            cause = broken.__cause__
            if isinstance(cause, LogDamaged) or (isinstance(cause, LakemqError) and cause.code not in CODES):
                raise
            if cause is None or (self._is_open and not isinstance(cause, LakemqError)):
                raise

    async def _start(self) -> None:
        self._is_open = False
        await super()._start()
        self._is_open = True

    async def attempt(self, doing: Awaitable[T]) -> T | None:
        try:
            return await doing
        except LakemqError as error:
            if error.code not in CODES:
                raise Broken(f"a client is told {error.code}: {error.detail}") from error
            return None

    async def retain(self) -> None:
        with suppress(OSError):  # as housekeeping does
            await super().retain()

    async def reads(self) -> None:
        """All that clients can ask for."""
        log, reader = self.broker.log, self.broker.reader
        if not await self.flush():
            return  # what is checked counts as being on disk
        queue = log.topics.queue(TOPIC, 0)
        there = [sent for sent in self.ledger.sent.values() if sent.fate is Fate.DURABLE and sent.is_erased is False]
        placed = [sent.place[2] for sent in there if sent.place and sent.place[2] >= log.min_position]
        asked: list[Callable[[], object]] = [
            self.check,
            lambda: reader.position_at_time(log.now_ms()),
            lambda: reader.offset_at_position(queue, log.min_position),
            *(partial(reader.message, position) for position in self.chance.sample(placed, min(3, len(placed)))),
        ]
        for ask in asked:
            await self.attempt(_soon(ask))

    async def everything(self) -> None:
        """Write and read."""
        await self.reads()
        await self.mix()
        if not self._is_closed:
            await self.reads()


async def _soon(ask: Callable[[], object]) -> None:
    ask()


async def _nothing() -> None:
    """A life without clients."""


def count_reads(root: Path) -> int:
    """How many calls that read the second life has, about."""
    machine = ReadingMachine(root, 0)
    machine.live(machine.mix)
    machine.end(power=False)
    before = machine.files.reads
    machine.live(machine.everything)
    return machine.files.reads - before


def run_read_fault(seed: int, reads: int) -> None:
    """One machine whose disk refuses one read, or a few, in the second life, in a call that the seed says. It may
    refuse to start, and requests with a code that says so; what it answers is right, and the next life is sound.
    Raises `Broken`."""
    root = Path(tempfile.mkdtemp(prefix="lakemq-reads-"))
    call, error, count = seed * STEP % reads + 1, ERRORS[seed % 3], random.Random(seed).choice((1, 1, 3))
    try:
        machine = ReadingMachine(root, seed)
        machine.live(machine.mix)
        machine.end(power=False)
        machine.files.read_fault, machine.files.read_faults = (machine.files.reads + call, error), count
        machine.live_with_faults(machine.everything)
        machine.files.read_fault = None
        machine.end(power=machine.chance.random() < 0.5)
        machine.live(machine.everything)
        machine.end(power=True)
        machine.live(_nothing)
    except Exception as why:
        raise Broken(f"read, seed {seed}, call {call} of {reads}, {errno.errorcode[error]}: {why!r}") from why
    finally:
        shutil.rmtree(root)
