"""The cut of a log on a machine that loses power, or in a process that is killed, in any of its mutating calls."""

from __future__ import annotations

import random
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple, cast

from lakemq.settings import MIB
from lakemq.storage.log.cutting import CUTTING
from lakemq.storage.log.followed_log import FollowedLog
from lakemq.storage.log.next_frames import next_frames
from lakemq.storage.log.positions import Reserved, read_given
from lakemq.storage.mend.closed_log import ClosedLog
from lakemq.storage.mend.truncate import cut_log
from lakemq.testing import FaultyFiles, LossyFiles
from tests.storage.cut_logs import Was, files_of, make_log, open_as_follower
from tests.storage.harness import LogHarness
from tests.storage.ledger import Broken

CLOSED = (True, False)
LEADERS = Reserved(7, 2**40)
TAIL_MIN = 2


class Scene(NamedTuple):
    """A log's files, and what it was at each frame's end; how many calls it takes to cut it in the middle."""

    files: dict[str, bytes]
    ends: dict[int, Was]
    end: int
    calls: int


@cache
def scene_of(closed: bool) -> Scene:
    """The log that was stopped in order, or whose process died."""
    with tempfile.TemporaryDirectory(prefix="lakemq-cut-") as directory:
        folder = Path(directory)
        harness = LogHarness(folder)
        ends = make_log(harness, frames=2)
        end = harness.log.next_position
        if closed:
            harness.close()
        else:
            harness.crash()
        content = {path.name: path.read_bytes() for path in harness.directory.iterdir()}
        files = LossyFiles(folder, 0)
        cut_log(ClosedLog(files, harness.directory), TAIL_MIN, 0, LEADERS, MIB)
        return Scene(content, ends, end, files.calls)


def run_cut(seed: int, skipped_site: str | None = None) -> None:
    """A cut that dies in a call that the seed says, with the machine or without, again and again until it is done; then
    the follower takes what it needs, and all of that is there after another power cut. Raises `Broken`."""
    chance = random.Random(seed)
    scene = scene_of(CLOSED[seed % 2])
    die_at = seed // 2 % scene.calls + 1
    position = chance.randrange(1, scene.end)
    root = Path(tempfile.mkdtemp(prefix="lakemq-cut-"))
    try:
        (root / "commitlog").mkdir()
        for name, data in scene.files.items():
            (root / "commitlog" / name).write_bytes(data)
        files = LossyFiles(root, seed)
        files.skipped_site = skipped_site
        files.on_skip = lambda: _die_soon(files, chance)
        _Run(root, scene, files, chance, position).run(die_at)
    except Exception as error:
        raise Broken(f"cut, seed {seed}, call {die_at} of {scene.calls}, at {position}: {error!r}") from error
    finally:
        shutil.rmtree(root)


def _die_soon(files: LossyFiles, chance: random.Random) -> None:
    if chance.random() < 0.5:
        files.die_at = files.calls + chance.randint(1, 6)


class _Run:
    def __init__(self, root: Path, scene: Scene, files: LossyFiles, chance: random.Random, position: int) -> None:
        self.root, self.scene, self.files, self.chance = root, scene, files, chance
        self.position = max(end for end in scene.ends if end <= position)
        self.directory = root / "commitlog"

    def run(self, die_at: int) -> None:
        skipped = self.files.skipped_site
        is_cut = False
        for number in range(3):  # the last one is not disturbed
            self.files.die_at = [self.files.calls + die_at, self.files.calls + self.chance.randint(1, 20), None][number]
            self.files.skipped_site = None if number == 2 else skipped
            try:
                cut_log(ClosedLog(self.files, self.directory), self.position, 0, LEADERS, MIB)
            except OSError:
                assert self.files.dead, "a cut failed by itself"
            else:
                is_cut = True
            if number < 2:
                self._end(skipped)
                self._check(is_cut)
        self.files.skipped_site = skipped
        self._follow()
        self._end(skipped="with power")
        self._check(is_cut, followed=True)

    def _end(self, skipped: str | None) -> None:
        if self.chance.random() < 0.7 or skipped:
            self.files.cut_power()
        else:
            self.files.revive()

    def _follow(self) -> None:
        """Begin again after a cut that is over: take the rest, which the leader has too, and bring it to disk."""
        self.files.revive()
        harness = LogHarness(self.root)
        harness.kind, harness.files = FollowedLog, cast("FaultyFiles", self.files)
        harness.open()
        try:
            assert isinstance(harness.log, FollowedLog)
            for name, data in self.scene.ends[self.scene.end].files.items():
                own = {segment.path.name: segment.size for segment in harness.log.segments}.get(name, 0)
                page = next_frames(data[own:], harness.log.next_position, harness.log.identity.now)
                harness.run(harness.log.take(page.frames))
                harness.wait_until_sealed()
            harness.flush()
        finally:
            harness.crash()

    def _check(self, is_cut: bool, followed: bool = False) -> None:
        """On a copy, which is opened: it is as before, or cut, or has all once more."""
        with tempfile.TemporaryDirectory(prefix="lakemq-cut-") as folder:
            shutil.copytree(self.root, folder, dirs_exist_ok=True)
            has_begun = (Path(folder) / "commitlog" / CUTTING).exists()
            other = open_as_follower(Path(folder), self.files.boots)
            try:
                end = self.scene.end if followed else other.log.next_position
                assert end in ({self.scene.end} if followed else {self.position, self.scene.end})
                if is_cut and not followed:
                    assert end == self.position, "a cut that was made is not there"
                was = self.scene.ends[end]
                assert files_of(other) == was.files
                assert other.log.state.dump() == was.state
                if end == self.position or has_begun or is_cut:
                    self._check_kept(other)
            finally:
                other.crash()

    def _check_kept(self, other: LogHarness) -> None:
        """A cut that was begun anew may have kept it twice."""
        kept = {path.read_bytes() for path in other.directory.glob("cut-*.frames")}
        whole, cut = (self.scene.ends[end].files for end in (self.scene.end, self.position))
        assert kept == {b"".join(data[len(cut.get(name, b"")) :] for name, data in whole.items())}
        assert read_given(other.files, other.directory, other.log.identity.now.log_id) == LEADERS
