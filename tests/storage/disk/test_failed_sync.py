"""After a failed fsync what can be read is not what is on disk, and no further fsync tells."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from lakemq.model.errors import StoreUnwritable
from lakemq.testing import LossyFiles
from tests.storage.harness import LogHarness
from tests.storage.ledger import Broken
from tests.storage.power_cuts import Machine


def _lives(machine: Machine, *scripts: Callable[[], object]) -> None:
    """Lives that kills end, the last one a power cut."""
    for number, script in enumerate(scripts, 1):
        machine.live(script)  # pyright: ignore[reportArgumentType]
        machine.end(power=number == len(scripts))


@pytest.mark.parametrize("seed", range(8))
def test_what_a_failed_flush_left_in_memory_is_written_again_by_the_next_start(tmp_path: Path, seed: int) -> None:
    machine = Machine(tmp_path, seed)

    async def fail() -> None:
        await machine.produce(2, sync=True)
        await machine.produce(3)
        machine.files.fail_syncs = 1
        assert not await machine.flush()
        assert "restart the gateway" in str(machine.broker.log.unwritable)

    async def go_on() -> None:
        await machine.produce(2, sync=True)

    async def look() -> None:
        await asyncio.sleep(0)

    _lives(machine, fail, go_on)  # the cache is lost after the second one
    machine.live(look)
    assert len(machine.ledger.sent) == 7
    assert all(sent.place is not None for sent in machine.ledger.sent.values())


def test_start_on_a_disk_that_still_fails_is_refused_and_the_next_one_tries_again(tmp_path: Path) -> None:
    machine = Machine(tmp_path, 1)

    async def fail() -> None:
        await machine.produce(2)
        machine.files.fail_syncs = 2
        assert not await machine.flush()
        with pytest.raises(StoreUnwritable):
            await machine.broker.log.flushed()

    async def look() -> None:
        await asyncio.sleep(0)

    machine.live(fail)
    machine.end(power=False)
    with pytest.raises(Broken, match="Input/output error"):
        machine.live(look)
    assert machine.files.fail_syncs == 0
    machine.end(power=False)
    _lives(machine, look)
    machine.live(look)
    assert len(machine.found()) == 2


def test_disk_that_does_not_hold_what_was_written_again_is_refused(tmp_path: Path) -> None:
    machine = Machine(tmp_path, 1)

    async def write() -> None:
        await machine.produce(2)

    async def look() -> None:
        await asyncio.sleep(0)

    machine.live(write)
    machine.end(power=False)
    files = machine.files = _Forgetful(tmp_path, 1)
    with pytest.raises(Broken, match="does not hold what was written"):
        machine.live(look)
    assert files.forgot


@pytest.mark.parametrize("how", ["removed", "replaced", "moved"])
def test_nothing_is_promised_of_a_file_that_somebody_has_removed(harness: LogHarness, how: str) -> None:
    """What is brought to disk in it no start would find."""
    harness.append("a", 0, b"before")
    harness.flush()
    path = harness.active.path
    if how == "moved":
        harness.directory.rename(harness.directory.with_name("elsewhere"))
    else:
        content = path.read_bytes()
        path.unlink()
        if how == "replaced":
            path.write_bytes(content)
    harness.append("a", 0, b"after")
    with pytest.raises(StoreUnwritable, match="somebody has removed"):
        harness.flush()
    with pytest.raises(StoreUnwritable, match="somebody has removed"):
        harness.append("a", 0, b"refused")
    assert [message.body for message in harness.read_queue("a", 0)] == [b"before", b"after"]


class _Forgetful(LossyFiles):
    """Files that lose the end of what is written once the memory of the system is asked no more."""

    forgot = False

    def forget_cached(self, descriptor: int) -> None:
        self.forgot = True
        super().truncate(descriptor, self.size(descriptor) - 8)
