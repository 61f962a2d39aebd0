"""The disk dies at every single operation of a sink's two batches, once with what was not flushed lost as
in a power cut; whatever is there then, the batches end up stored once."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest

from lakemq.model.errors import LakemqError, StoreUnwritable
from lakemq.storage.log.flush_mark import read_flush_mark
from lakemq.storage.segment.segment import segment_path
from lakemq.testing import FaultyFiles
from tests.gateway.http_client import write_arrow
from tests.gateway.routing.harness import RoutingHarness

SINK = "s"
CUTS = [[["0", "1", "2"], ["3"]], [["4"], ["5", "6"]]]
OTHER_CUTS = [[["3", "2"], ["1"], ["0"]], [["6", "5", "4"]]]
BODIES = [str(number) for number in range(7)]


class DyingFiles(FaultyFiles):
    """Files whose disk dies at the `left`th write, flush, rename or removal from now on, or at the first one that
    finds `at` to be so: of a write, half is done."""

    def __init__(self) -> None:
        super().__init__()
        self.left: int | None = None
        self.at: Callable[[], bool] | None = None

    def _step(self) -> bool:
        """Whether this is the operation that the disk dies at; raises when it is dead already."""
        if self.left is None and self.at is not None and self.at():
            self.left = 1
        if self.left is None:
            return False
        self.left -= 1
        if self.left < 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return self.left == 0

    def append(self, descriptor: int, parts: Sequence[bytes | memoryview]) -> int:
        if not self._step():
            return super().append(descriptor, parts)
        data = b"".join(bytes(part) for part in parts)
        super().append(descriptor, (data[: len(data) // 2],))
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def truncate(self, descriptor: int, size: int) -> None:
        self._step()
        super().truncate(descriptor, size)

    def sync(self, descriptor: int) -> None:
        if self._step():
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().sync(descriptor)

    def replace(self, path: Path, content: Iterable[bytes | memoryview], durable: bool = True) -> None:
        if self._step():
            scratch = path.with_name(path.name + ".tmp")
            scratch.write_bytes(bytes(next(iter(content)))[:100])
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().replace(path, content, durable)

    def remove(self, path: Path) -> None:
        if self._step():
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().remove(path)


class Crashing(RoutingHarness):
    """A broker with a disk that dies, and a committer that writes two batches to a sink."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir)
        self._data_dir = data_dir
        self._attempts = count()

    async def write(self, cuts: list[list[list[str]]]) -> None:
        for batch, parts in enumerate(cuts):
            attempt = next(self._attempts)
            names: list[str] = []
            for number, bodies in enumerate(parts):
                name = f"{attempt}-{number}"
                keys = pa.array([f"o{body}" for body in bodies])
                content = write_arrow({"body": pa.array([body.encode() for body in bodies]), "ordering_key": keys})
                if await self.broker.sinks.stage(SINK, batch, name, "t", None, content):
                    names.append(name)
            await self.broker.sinks.commit(SINK, batch, names, f"batch {batch}", once=False)

    def cut_power(self) -> None:
        """What was not flushed is gone."""
        directory = self._data_dir / "commitlog"
        mark = read_flush_mark(self.files, directory)
        path = segment_path(directory, mark.base_position)
        if mark.size and path.exists():
            os.truncate(path, mark.size)

    async def stored(self) -> None:
        """Return when what was committed is stored."""
        while any(self.broker.sinks.state.unfinished()):  # noqa: ASYNC110  nobody tells when
            await asyncio.sleep(0)

    def files_of_parts(self) -> list[Path]:
        return list((self._data_dir / "sinks").glob("*.part"))

    def bodies(self) -> list[str]:
        return [message.get("body").decode() for message in self.messages() if message.topic == "t"]


@pytest.mark.parametrize("power_cut", [False, True])
def test_each_batch_is_stored_once_whichever_operation_the_disk_dies_at(tmp_path: Path, power_cut: bool) -> None:
    for step in count(1):
        harness = Crashing(tmp_path / str(step))
        dying = harness.files = DyingFiles()
        harness.open(0)
        dying.left = step
        with suppress(LakemqError, OSError):
            harness.run(harness.write(CUTS))
        harness.crash()
        if power_cut:
            harness.cut_power()
        harness.files = FaultyFiles()
        harness.open(0)
        harness.run(harness.stored())
        state = harness.broker.sinks.state
        whole = 0 if SINK not in state.by_name else 1 + state.by_name[SINK].batch
        assert sorted(harness.bodies()) == [BODIES[:0], BODIES[:4], BODIES][whole], step
        harness.run(harness.write(OTHER_CUTS))
        assert sorted(harness.bodies()) == BODIES, step
        dumped = harness.broker.log.state.sinks.dump()
        harness.restart_without_snapshots(0)
        assert harness.broker.log.state.sinks.dump() == dumped
        assert not harness.broker.sinks.staging.count
        harness.close()
        assert not list((tmp_path / str(step) / "sinks").rglob("*.part*")), step
        if dying.left > 0:  # it has lived to the end
            assert step > 20
            return


def dies_with_left(harness: Crashing, batch: int, left: int) -> None:
    """Have the disk die when so many parts of that batch are left to be stored. The state says when: how many
    operations that takes varies, as what is stored is removed in a thread."""
    dying = harness.files = DyingFiles()
    harness.open(0)

    def is_there() -> bool:
        sink = harness.broker.sinks.state.by_name.get(SINK)
        return sink is not None and (sink.batch, len(sink.left)) == (batch, left)

    dying.at = is_there
    with suppress(LakemqError, OSError):
        harness.run(harness.write(CUTS[: batch + 1]))
    assert dying.left is not None
    assert is_there()


def ended_between_commit_and_parts(folder: Path) -> Crashing:
    """A broker that died when a batch's commit was in its log, and its parts weren't."""
    harness = Crashing(folder)
    dies_with_left(harness, 0, len(CUTS[0]))
    harness.crash()
    return harness


def test_a_part_that_is_lost_after_its_batch_was_committed_is_counted_and_holds_up_nothing(tmp_path: Path) -> None:
    harness = ended_between_commit_and_parts(tmp_path)
    for staged in harness.files_of_parts():
        staged.write_bytes(staged.read_bytes()[:-1] + b"x")
    harness.files = FaultyFiles()
    harness.open(0)
    harness.run(harness.stored())
    sink = harness.broker.sinks.state.by_name[SINK]
    stored = sink.messages
    assert stored + sink.dropped == 4
    assert sink.dropped > 0
    assert len(harness.bodies()) == stored
    harness.run(harness.write(OTHER_CUTS))
    assert sorted(harness.bodies()[stored:]) == BODIES[4:]
    harness.close()


def test_a_batch_that_fills_the_disk_goes_on_when_there_is_room_and_its_first_parts_make_some(tmp_path: Path) -> None:
    harness = Crashing(tmp_path)
    harness.open(0)
    sinks, size = harness.broker.sinks, 5_000

    async def write() -> None:
        for name in ("a", "b"):
            content = write_arrow({"body": pa.array([name.encode() * size])})
            await sinks.stage(SINK, 0, name, "t", None, content)
        harness.files.room_bytes = size * 3 // 2
        with pytest.raises(StoreUnwritable):
            await sinks.commit(SINK, 0, ["a", "b"], "", once=False)
        assert [part.name for part in sinks.staging.of(SINK, 0)] == ["b"]
        with pytest.raises(StoreUnwritable):
            await sinks.stage(SINK, 1, "c", "t", None, content)
        harness.files.room_bytes = None
        harness.broker.log.retain()
        await sinks.commit(SINK, 0, ["a", "b"], "", once=False)

    harness.run(write())
    assert harness.bodies() == ["a" * size, "b" * size]
    assert not sinks.staging.count
    harness.close()
    assert not harness.files_of_parts()


class Unreadable(FaultyFiles):
    """Files of parts that can't be opened: too many are open, or the disk has an error that passes."""

    def __init__(self, code: int) -> None:
        super().__init__()
        self.code: int | None = code
        self.refused = 0

    def open_read(self, path: Path) -> int:
        if self.code is not None and path.suffix == ".part":
            self.refused += 1
            raise OSError(self.code, os.strerror(self.code))
        return super().open_read(path)


@pytest.mark.parametrize("code", [errno.EMFILE, errno.EIO])
def test_an_error_that_passes_drops_nothing_of_a_committed_batch(tmp_path: Path, code: int) -> None:
    """A part that could not be opened used to be dropped, and one whose header could not be read removed."""
    harness = ended_between_commit_and_parts(tmp_path)
    unreadable = harness.files = Unreadable(code)
    harness.open(0)
    staged = len(harness.files_of_parts())

    async def refused() -> None:
        while unreadable.refused < 2 * staged:  # noqa: ASYNC110  at the start, and once more
            await asyncio.sleep(0.01)

    harness.run(refused())
    assert len(harness.files_of_parts()) == staged
    assert harness.broker.sinks.state.by_name[SINK].left
    unreadable.code = None
    harness.run(harness.stored())
    assert sorted(harness.bodies()) == BODIES[:4]
    assert harness.broker.sinks.state.by_name[SINK].dropped == 0
    harness.close()


@pytest.mark.parametrize("code", [errno.EMFILE, errno.EIO])
def test_an_error_that_passes_while_a_batch_is_stored_is_a_503_and_the_batch_goes_on(tmp_path: Path, code: int) -> None:
    harness = Crashing(tmp_path)
    unreadable = harness.files = Unreadable(code)
    harness.open(0)
    with pytest.raises(StoreUnwritable, match="can't be read now"):
        harness.run(harness.write(CUTS[:1]))
    unreadable.code = None
    harness.run(harness.stored())
    assert sorted(harness.bodies()) == BODIES[:4]
    harness.close()
