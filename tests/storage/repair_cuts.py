"""`lakemq log repair` of a machine that loses power, or of a process that is killed, in any of its mutating calls."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from lakemq.model.errors import LogDamaged
from lakemq.storage.mend.repair import Repaired, repair_log
from lakemq.storage.mend.verify import verify_log
from lakemq.testing import LossyFiles
from tests.storage.harness import LogHarness, Message
from tests.storage.ledger import Broken

QUEUES = 3


class Scene(NamedTuple):
    """A log's files, damaged; what a repair that nothing disturbs leaves of its messages, and says; the position,
    and each queue's offset, that may be given next; and in how many calls it dies, which is all."""

    files: dict[str, bytes]
    kept: list[Message]
    topics: set[str]
    said: Repaired
    next_position: int
    next_offsets: list[int]
    calls: int


def _begin_segment(harness: LogHarness) -> None:
    count = len(harness.log.segments)
    harness.log.begin_segment()
    while len(harness.log.segments) == count or any(segment.sealing for segment in harness.log.segments):
        harness.settle()


def _make_log(folder: Path, closed: bool) -> list[list[tuple[int, int]]]:
    """A log of three small segments; where the frames of each are. The last one says that topic `late` is there."""
    harness = LogHarness(folder).open()
    frames: list[list[tuple[int, int]]] = []
    harness.put_topic("a", QUEUES)
    for number in range(3):
        if number:
            _begin_segment(harness)
        frames.append([])
        for count in range(6):
            begin = harness.active.size
            harness.append("a", count % QUEUES, b"%d of %d" % (count, number), b"and more")
            frames[-1].append((begin, harness.active.size))
    begin = harness.active.size
    harness.put_topic("late", 1)
    frames[-1].append((begin, harness.active.size))
    harness.flush()
    if closed:
        harness.close()
    else:
        harness.crash()
    return frames


def _flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)


Frames = list[list[tuple[int, int]]]
Damage = Callable[[list[Path], Frames], object]
DAMAGES: dict[str, Damage] = {
    "a payload": lambda paths, frames: _flip(paths[0], frames[0][2][1] - 10),
    "a header": lambda paths, frames: _flip(paths[1], frames[1][3][0] + 20),
    "a state frame": lambda paths, frames: _flip(paths[1], 20),
    "a missing segment": lambda paths, frames: paths[1].unlink(),
    "the end of the last one": lambda paths, frames: paths[2].write_bytes(paths[2].read_bytes()[: frames[2][4][0]]),
    "a header in each": lambda paths, frames: [_flip(paths[n], frames[n][n + 1][0] + 30) for n in range(3)],
}


@cache
def scene_of(damage: str, closed: bool) -> Scene:
    """The scene of that damage, in a log that was stopped in order, or whose process died."""
    with tempfile.TemporaryDirectory(prefix="lakemq-repair-") as directory:
        folder = Path(directory)
        frames = _make_log(folder, closed)
        harness = LogHarness(folder)
        shutil.copytree(folder, folder / "whole")
        before, _ = _opened(LogHarness(folder / "whole"))
        shutil.rmtree(folder / "whole")
        DAMAGES[damage](harness.segment_paths(), frames)
        content = {path.name: path.read_bytes() for path in harness.directory.iterdir()}
        files = LossyFiles(folder, 0)
        said = repair_log(folder, files)
        kept, topics = _opened(harness)
        offsets = [max(m.queue_offset for m in before if (m.topic, m.queue_id) == ("a", q)) + 1 for q in range(QUEUES)]
        return Scene(content, kept, topics, said, before[-1].position + 1, offsets, files.calls)


def _opened(harness: LogHarness) -> tuple[list[Message], set[str]]:
    harness.open()
    try:
        return harness.read_log(), _topics(harness)
    finally:
        harness.crash()


def _topics(harness: LogHarness) -> set[str]:
    return {queue.topic for queue in harness.log.topics.all_queues()}


def run_repair(seed: int, skipped_site: str | None = None) -> None:
    """A repair that dies in a call that the seed says, with the machine or without, once more after its end; then the
    log starts, or is repaired again, and has all that the first repair would have kept. Raises `Broken`."""
    chance = random.Random(seed)
    damages = list(DAMAGES)
    scene = scene_of(damages[seed % len(damages)], chance.random() < 0.5)
    die_at = seed // len(damages) % (scene.calls + 1) + 1
    root = Path(tempfile.mkdtemp(prefix="lakemq-repair-"))
    try:
        (root / "commitlog").mkdir()
        for name, data in scene.files.items():
            (root / "commitlog" / name).write_bytes(data)
        files = LossyFiles(root, seed)
        files.skipped_site = skipped_site
        files.on_skip = lambda: _die_soon(files, chance)
        _run(root, scene, files, die_at, chance)
    except Exception as error:
        raise Broken(f"repair, seed {seed}, call {die_at} of {scene.calls}: {error!r}") from error
    finally:
        shutil.rmtree(root)


def _run(root: Path, scene: Scene, files: LossyFiles, die_at: int, chance: random.Random) -> None:
    harness = LogHarness(root)
    is_done = False
    for number in range(3):  # the last one is not disturbed
        files.die_at = [files.calls + die_at, files.calls + chance.randint(1, 40), None][number]
        files.skipped_site = None if number == 2 else files.skipped_site
        try:
            said = repair_log(root, files)
        except OSError:
            assert files.dead, "a repair failed by itself"
        else:
            assert not (is_done and said.segments_rewritten), "what was repaired is repaired again"
            is_done = True
        if chance.random() < 0.7 or files.skipped_site:
            files.cut_power()
        else:
            files.revive()
        _check(harness, scene, files.boots, is_done)
    assert is_done


def _die_soon(files: LossyFiles, chance: random.Random) -> None:
    if chance.random() < 0.5:
        files.die_at = files.calls + chance.randint(1, 6)


def _check(harness: LogHarness, scene: Scene, boots: int, is_done: bool) -> None:
    """On a copy, which is opened: it is refused, or read as damaged, unless it is repaired, and has what a repair would
    have kept."""
    with tempfile.TemporaryDirectory(prefix="lakemq-repair-") as folder:
        shutil.copytree(harness.directory.parent, folder, dirs_exist_ok=True)
        other = LogHarness(Path(folder), verify_ms=0)  # as good as a large log, of which a start verifies a part
        other.files.boots = boots
        try:
            other.open()
            _check_open(other, scene)
        except LogDamaged:
            if is_done:
                raise
            return
        finally:
            if other.is_open:
                other.crash()
        assert not is_done or verify_log(Path(folder)).sound


def _check_open(harness: LogHarness, scene: Scene) -> None:
    assert harness.read_log() == scene.kept
    assert _topics(harness) == scene.topics
    for queue_id, offset in enumerate(scene.next_offsets):
        (placed,) = harness.append("a", queue_id, b"new").placed
        assert placed.position >= scene.next_position, "a position is given again"
        assert placed.queue_offset >= offset, "an offset is given again"
