"""Syncs that matter in a moment that chance seldom meets: each has a scene of its own, in which a power cut comes just
then. What the disk holds after it is looked at for many ways in which it may have lost what was not synced."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, cast

from pyroaring import BitMap64

from lakemq.model.errors import LakemqError
from lakemq.settings import HOUR_MS
from lakemq.storage.log.followed_log import FollowedLog
from lakemq.storage.log.positions import (
    RESERVED,
    UNKNOWN_BLOCK,
    forget_confirming,
    note_confirming,
    read_confirming,
)
from lakemq.storage.mend.erasure import Eraser
from lakemq.storage.mend.kept_erasure import KeptErasure, erase_kept
from lakemq.storage.mend.replacing import Replacing
from lakemq.storage.segment.frame import HEADER_BYTES, decode_meta
from lakemq.testing import FaultyFiles, LossyFiles
from tests.storage.harness import LogHarness

CUTS, CUTS_WITHOUT = 25, 500
"""So many ways are looked at, and where a sync does nothing so many until one breaks a promise."""
RENAMES = ("rename", "rename")
"""Of an erasure: of its index to the scratch file's name, and of the segment."""


class SceneFiles(LossyFiles):
    """`dies_after`: the machine ends in the first call after the last one of these. `no_reservation`: there is no
    room to reserve positions."""

    dies_after: Sequence[str] = ()
    no_reservation = False

    def _step(self, name: str) -> bool:
        going_on = super()._step(name)
        if self.dies_after and name == self.dies_after[0]:
            self.dies_after = self.dies_after[1:]
            if not self.dies_after:
                self.die_at = self.calls + 1
        return going_on

    def settle(self) -> None:
        """Let all that is there, by whomever, be on disk."""
        paths = [self.root, *self.root.rglob("*")]
        self._disk.settle({path: None if path.is_dir() else path.read_bytes() for path in paths})

    def replace(self, path: Path, content: Iterable[bytes | memoryview], durable: bool = True) -> None:
        if self.no_reservation and path.name == RESERVED:
            raise OSError(errno.ENOSPC, "no room")
        super().replace(path, content, durable)

    def cuts(self) -> Iterator[dict[Path, bytes | None]]:
        """What the disk may hold if the power is cut now."""
        for number in range(CUTS if self.skipped_site is None else CUTS_WITHOUT):
            yield self._disk.after_cut(random.Random(number))


class Scene(NamedTuple):
    """`play` makes what the power cut comes to; `look` is at each log that it may leave, open, and fails for one that
    breaks a promise."""

    play: Callable[[LogHarness, SceneFiles], None]
    look: Callable[[LogHarness], None]
    settings: dict[str, object]


def run_scene(scene: Scene, folder: Path, skipped_site: str | None = None) -> None:
    """Raises what a broken promise raises: `AssertionError`, `LakemqError`."""
    before = LogHarness(folder / "before", compression="none", **scene.settings)
    before.settings.data_dir.mkdir(parents=True)
    files = SceneFiles(folder / "before", 0)
    files.skipped_site = skipped_site
    before.files = cast("FaultyFiles", files)
    try:
        scene.play(before, files)
    finally:
        files.dead = True
        if before.is_open:
            before.crash()
    for number, content in enumerate(files.cuts()):
        after = LogHarness(folder / str(number), compression="none", **scene.settings)
        for path, data in content.items():
            other = folder / str(number) / path.relative_to(folder / "before")
            other.mkdir() if data is None else other.write_bytes(data)
        after.files.boots = 1
        after.clock.time_ms, after.clock.jumped_ms = before.clock.time_ms, before.clock.jumped_ms
        after.open()
        try:
            scene.look(after)
        finally:
            after.crash()


def _begin_segment(harness: LogHarness) -> None:
    count = len(harness.log.segments)
    harness.log.begin_segment()
    while len(harness.log.segments) == count or any(segment.sealing for segment in harness.log.segments):
        harness.settle()


def _fill(harness: LogHarness, segments: int = 4) -> None:
    harness.open()
    harness.put_topic("a", 1)
    for number in range(segments):
        harness.append("a", 0, b"secret %d" % number + bytes(5_000), b"other %d" % number)
        _begin_segment(harness)


def _erase_first(harness: LogHarness) -> None:
    (position,) = [message.position for message in harness.read_log() if message.body.startswith(b"secret 0")]
    eraser = Eraser(harness.log, harness.reader, Replacing(harness.log, harness.reader))
    harness.run(eraser.erase(BitMap64([position])))


@contextmanager
def _dying(files: LossyFiles) -> Generator[None]:
    with suppress(OSError, LakemqError):
        yield
    assert files.dead


# The scenes ----------------------------------------------------------------------------------


def _remove_two(harness: LogHarness, files: SceneFiles) -> None:
    _fill(harness)
    for _ in range(2):
        harness.log._store.remove_oldest(harness.log.topics)  # pyright: ignore[reportPrivateUsage]


def _starts(harness: LogHarness) -> None:
    assert harness.read_log()


def _end_as_an_erasure_renames(harness: LogHarness, files: SceneFiles) -> None:
    _fill(harness, 2)
    files.dies_after = RENAMES
    with _dying(files):
        _erase_first(harness)


def _erase_what_is_kept(harness: LogHarness, files: SceneFiles) -> None:
    _fill(harness, 2)
    path = harness.segment_paths()[0]
    files.replace(path.with_name(path.name + ".damaged"), [b"a secret 0 that was cut off"], durable=False)
    _erase_first(harness)


def _has_forgotten(harness: LogHarness) -> None:
    there = b"".join(path.read_bytes() for path in sorted(harness.directory.iterdir()))
    assert b"secret 0" not in there
    assert b"secret 1" in there


def _erase_what_a_process_that_died_has_erased(harness: LogHarness, files: SceneFiles) -> None:
    _fill(harness, 2)
    (position,) = [message.position for message in harness.read_log() if message.body.startswith(b"secret 0")]
    files.dies_after = RENAMES
    with _dying(files):
        _erase_first(harness)
    harness.crash()
    files.revive()
    files.no_reservation = True
    harness.open()
    eraser = Eraser(harness.log, harness.reader, Replacing(harness.log, harness.reader))
    assert harness.run(eraser.erase(BitMap64([position]))).holes == 1


def _tell_positions_after_a_clean_stop(harness: LogHarness, files: SceneFiles) -> None:
    harness.open()
    harness.put_topic("a", 1)
    harness.close()
    harness.open()
    assert harness.append("a", 0, b"told", b"told").placed[-1].position == 2


def _gives_none_again(harness: LogHarness) -> None:
    assert harness.append("a", 0, b"another").placed[0].position > 2


def _follow_with_a_primarys_folder(harness: LogHarness, files: SceneFiles) -> None:
    harness.open()
    harness.put_topic("a", 1)
    harness.flush()
    harness.crash()
    files.settle()
    harness.kind = FollowedLog
    harness.open()


def _knows_nothing_of_what_was_given(harness: LogHarness) -> None:
    assert harness.log.next_position == 1 + UNKNOWN_BLOCK


def _let_the_clock_jump(harness: LogHarness, files: SceneFiles) -> None:
    _fill(harness)
    harness.log.retention.certain_position = harness.log.next_position
    harness.clock.jumped_ms = 10_000 * HOUR_MS
    assert harness.log.retain() == 0
    harness.append("a", 0, b"stamped by it")
    harness.flush()


def _deletes_nothing(harness: LogHarness) -> None:
    harness.log.retention.certain_position = harness.log.next_position
    assert harness.log.retain() == 0


def _end_as_a_start_cuts(harness: LogHarness, files: SceneFiles) -> None:
    _fill(harness, 1)
    harness.flush()
    path, tail = harness.segment_paths()[-1], harness.active.size
    for number in range(4):
        harness.append("a", 0, b"tail %d" % number)
    harness.crash()
    content = bytearray(path.read_bytes())
    content[tail + HEADER_BYTES + 1] ^= 1
    path.write_bytes(content)
    files.settle()
    files.boots += 1
    files.dies_after = ("truncate",)
    with _dying(files):
        harness.open()


def _has_the_tail(harness: LogHarness) -> None:
    there = b"".join(path.read_bytes() for path in sorted(harness.directory.iterdir()))
    assert b"tail 3" in there


def _forget_who_confirms(harness: LogHarness, files: SceneFiles) -> None:
    harness.open()
    note_confirming(harness.files, harness.directory, harness.log.identity.now)
    files.settle()
    forget_confirming(harness.files, harness.directory)


def _knows_nothing_of_who_confirms(harness: LogHarness) -> None:
    assert read_confirming(harness.files, harness.directory, harness.log.identity.now.log_id) is None


def _erase_what_was_cut(harness: LogHarness, files: SceneFiles) -> None:
    _fill(harness, 2)
    harness.flush()
    data = harness.segment_paths()[0].read_bytes()
    (harness.directory / "cut-1-1.frames").write_bytes(data[decode_meta(data).frame_bytes :])
    files.settle()
    _erase_kept(harness, "secret 0")


def _erase_beside_what_was_cut_by_half(harness: LogHarness, files: SceneFiles) -> None:
    _fill(harness, 2)
    (harness.directory / "cut-1-1.frames").write_bytes(b"")
    (harness.directory / "cut-1-1.frames.tmp").write_bytes(b"secret 0")
    files.settle()
    _erase_kept(harness, "secret 1")


def _erase_kept(harness: LogHarness, begins: str) -> None:
    (position,) = [message.position for message in harness.read_log() if message.body.startswith(begins.encode())]
    erasure = KeptErasure(harness.log.identity, BitMap64([position]))
    erase_kept(harness.files, harness.directory, harness.settings, erasure)


def _keeps_the_other(harness: LogHarness) -> None:
    there = (harness.directory / "cut-1-1.frames").read_bytes()
    assert b"secret 0" not in there
    assert b"other 0" in there


def _keeps_no_half(harness: LogHarness) -> None:
    assert not list(harness.directory.glob("*.frames.tmp"))


_CONFIRM: dict[str, object] = {"clock_confirm_ms": 600_000}
SCENES = {
    "storage.log.segment_store.SegmentStore.remove_oldest: sync_dir": Scene(_remove_two, _starts, {}),
    "storage.mend.erasure.Eraser._drop_index: sync_dir": Scene(_end_as_an_erasure_renames, _starts, {}),
    "storage.mend.erasure.Eraser._forget_kept: sync_dir": Scene(_erase_what_is_kept, _has_forgotten, {}),
    "storage.log.unflushed.bring_to_disk: sync_dir": Scene(
        _erase_what_a_process_that_died_has_erased, _has_forgotten, {}
    ),
    "storage.log.positions.write_reserved: replace.sync_dir": Scene(
        _tell_positions_after_a_clean_stop, _gives_none_again, {}
    ),
    "storage.log.positions.NoPositions.open: sync_dir": Scene(
        _follow_with_a_primarys_folder, _knows_nothing_of_what_was_given, {}
    ),
    "storage.log.retention.Retention._remember_jump: replace.sync": Scene(
        _let_the_clock_jump, _deletes_nothing, _CONFIRM
    ),
    "storage.log.retention.Retention._remember_jump: replace.sync_dir": Scene(
        _let_the_clock_jump, _deletes_nothing, _CONFIRM
    ),
    "storage.log.positions.forget_confirming: sync_dir": Scene(
        _forget_who_confirms, _knows_nothing_of_who_confirms, {}
    ),
    "storage.mend.kept_erasure._erase_in: replace.sync": Scene(_erase_what_was_cut, _keeps_the_other, {}),
    "storage.mend.kept_erasure._erase_in: replace.sync_dir": Scene(_erase_what_was_cut, _keeps_the_other, {}),
    "storage.mend.kept_erasure.erase_kept: sync_dir": Scene(_erase_beside_what_was_cut_by_half, _keeps_no_half, {}),
    "storage.log.torn._keep: sync": Scene(_end_as_a_start_cuts, _has_the_tail, {}),
    "storage.log.torn._keep: sync_dir": Scene(_end_as_a_start_cuts, _has_the_tail, {}),
}
"""By the sync that each shows to be needed."""
