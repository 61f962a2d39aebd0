"""What stands in for a damaged segment holds all that the segment did, whatever crashes meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from lakemq.gateway.upkeep.quarantine import Quarantine
from lakemq.model.errors import LakemqError, LogDamaged
from lakemq.settings import Broker as Name
from lakemq.settings import Idempotency, Lake, Settings, Storage
from lakemq.storage.disk.files import Files
from lakemq.storage.lake.history import History
from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.mend.erasure import remove_scratch
from lakemq.storage.mend.verify import verify_log
from lakemq.storage.read.reader import Reader
from lakemq.storage.state.message_ids import MessageIds
from lakemq.testing import LossyFiles, ManualClock
from tests.storage.harness import Message, messages_of
from tests.storage.mended import Scene, copy_of, cut, flip, make_scene


class Content(NamedTuple):
    """A log's messages, its state, and which idempotency keys are known."""

    messages: list[Message]
    state: dict[str, Any]
    keys: list[str]


def open_and_read(scene: Scene, files: Files | None = None, late_ms: int = 0, window_ms: int | None = None) -> Content:
    """Open the log as a gateway does, `late_ms` after it was written, and let go of it as a crash would; what it
    holds. Raises what that raises."""
    storage = {"data_dir": scene.folder / "data", "verify_ms": 60_000, "free_bytes_min": 0, "cache_bytes": 0}
    lake = Lake(dir=scene.folder / "lake")
    keys = Idempotency() if window_ms is None else Idempotency(window_ms=window_ms)
    named, stored = Name(name="broker-a"), Storage.model_validate(storage)
    settings = Settings(broker=named, storage=stored, lake=lake, idempotency=keys)

    async def opening() -> Content:
        clock = ManualClock()
        clock.time_ms = scene.messages["t"][-1]["store_time_ms"] + late_ms
        log = CommitLog(settings.storage, files or Files(), clock)
        history = History(lake.dir, MessageIds("broker-a"), 2**20)
        reader = Reader(log)
        try:
            quarantine = Quarantine(settings, log, reader, history)
            log.open(quarantine.mend, quarantine.put_off, loop=asyncio.get_running_loop())
            remove_scratch(log.files, log.directory)
            plan = reader.plan_positions(0, log.next_position, None, 2**30)
            notes = [note for segment in log.segments for note in reader.index(segment).notes]
            messages = messages_of(reader.read_positions(plan, None))
            return Content(messages, log.state.dump(), [note.key for note in notes])
        finally:
            with suppress(AttributeError):
                log.release()
            for segment in log.segments:
                segment.close()

    return asyncio.run(opening())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Scene, Content]:
    scene = make_scene(tmp_path_factory.mktemp("made"))
    return scene, open_and_read(copy_of(scene, scene.folder.with_name("read")))


DAMAGES: dict[str, Callable[[list[Path]], object]] = {
    "a payload": lambda paths: flip(paths[1], 500_000),
    "a header": lambda paths: flip(paths[1], paths[1].read_bytes().rindex(b"LMQF") + 40),
    "many places": lambda paths: [flip(paths[2], at) for at in range(0, 1_000_000, 50_000)],
    "a state frame": lambda paths: flip(paths[1], 10),
    "the log's first state frame": lambda paths: flip(paths[0], 10),
    "the end": lambda paths: cut(paths[1], 700_000),
    "everything": lambda paths: cut(paths[2], 0),
    "a neighbour, too": lambda paths: [flip(paths[1], 600_000), flip(paths[1], 10), cut(paths[2], 300_000)],
    "the file is missing": lambda paths: paths[1].unlink(),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_start_mends_what_the_lake_holds(made: tuple[Scene, Content], tmp_path: Path, damage: str) -> None:
    """It used to be refused, though every message was in the lake."""
    scene, expected = copy_of(made[0], tmp_path / "copy"), made[1]
    before = {path.name: path.read_bytes() for path in scene.segments()}
    DAMAGES[damage](scene.segments())
    damaged = {path.name: path.read_bytes() for path in scene.segments()}
    assert open_and_read(scene) == expected
    assert verify_log(scene.folder / "data").sound
    kept = {path.name: path.read_bytes() for path in scene.kept()}
    changed = {name for name, content in damaged.items() if before[name] != content}
    assert kept == {f"{name}.quarantine-1": damaged[name] for name in changed}
    assert open_and_read(scene) == expected
    assert len(scene.kept()) == len(kept)


def test_a_start_without_indexes_mends_where_keys_of_requests_are_given_up(
    made: tuple[Scene, Content], tmp_path: Path
) -> None:
    """They used to count as forgotten by a clock that nobody believes: a request that came again was stored twice."""
    scene, expected = copy_of(made[0], tmp_path / "copy"), made[1]
    flip(scene.segments()[0], 10)
    flip(scene.segments()[1], scene.segments()[1].read_bytes().rindex(b"LMQF") + 40)
    for path in scene.segments():
        path.with_suffix(".idx").unlink(missing_ok=True)
    for late_ms in (0, 86_400_000):
        with pytest.raises(LogDamaged, match=r"idempotency keys .* idempotency\.window_ms = 0 .* lakemq log repair"):
            open_and_read(scene, late_ms=late_ms)
    assert open_and_read(scene, late_ms=1_000, window_ms=0)[:2] == expected[:2]


def test_a_start_refuses_damage_that_the_lake_cannot_make_good(made: tuple[Scene, Content], tmp_path: Path) -> None:
    scene = copy_of(made[0], tmp_path / "copy")
    flip(scene.segments()[1], 500_000)
    (scene.folder / "lake").rename(tmp_path / "away")
    before = {path.name: path.read_bytes() for path in scene.segments()}
    with pytest.raises(LogDamaged, match=r"is damaged at offset .* there is no lake .* lakemq log repair"):
        open_and_read(scene)
    assert {path.name: path.read_bytes() for path in scene.segments()} == before
    (tmp_path / "away").rename(scene.folder / "lake")
    some = next((scene.folder / "lake" / "messages").glob("*.parquet"))
    cut(some, 1000)
    with pytest.raises(LogDamaged, match="has lost a part"):
        open_and_read(scene)


def test_damage_of_the_segment_that_is_written_is_refused(made: tuple[Scene, Content], tmp_path: Path) -> None:
    """Unless a snapshot has the state after it, and the lake the messages."""
    scene = copy_of(made[0], tmp_path / "copy")
    path = scene.segments()[-1]
    sound = path.read_bytes()
    flip(path, 60)  # its state frame's header
    with pytest.raises(LogDamaged, match="first frame"):
        open_and_read(scene)
    path.write_bytes(sound)
    flip(path, sound.rindex(b"LMQF") + 120)  # a message that the lake doesn't hold
    with pytest.raises(LogDamaged, match="is damaged at offset"):
        open_and_read(scene)


SYNCS = {
    "storage.mend.stand_in._write: sync": 40,
    "storage.mend.stand_in._sync: sync": 6,
    "storage.mend.stand_in.set_aside: sync_dir": 2,
}
"""Each, and so many calls after it may the machine die at most, so that it matters. The one after the new file has
its name is not needed: else the mend is done again."""


class Machine:
    """One that loses its power while it mends a segment."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self._folder = scene.folder / "data" / "commitlog"
        DAMAGES["a header"](scene.segments())
        self.damaged = scene.segments()[1].read_bytes()
        self._content = {path.name: path.read_bytes() for path in self._folder.iterdir()}

    def begin(self, seed: int) -> LossyFiles:
        """The damaged log once more."""
        for path in self._folder.iterdir():
            path.unlink()
        for name, data in self._content.items():
            (self._folder / name).write_bytes(data)
        return LossyFiles(self.scene.folder / "data", seed)

    def run(self, files: LossyFiles) -> None:
        """Open the log, as far as that goes; then the power fails."""
        with suppress(LakemqError, OSError):
            open_and_read(self.scene, files)
        files.die_at = None
        files.cut_power()

    def check(self, expected: Content, seed: int) -> None:
        """The next start has it all, and the damaged file."""
        found = open_and_read(self.scene)
        assert (found.messages, found.keys) == (expected.messages, expected.keys), f"seed {seed}"
        # After a cut the model's disk knows no longer that two names were one file's.
        assert {path.read_bytes() for path in self.scene.kept()} == {self.damaged}, f"seed {seed}"
        assert not [*self._folder.glob("*.stand-in*")]


def test_power_cut_at_any_call_of_a_mend_costs_nothing(made: tuple[Scene, Content], tmp_path: Path) -> None:
    machine = Machine(copy_of(made[0], tmp_path / "copy"))
    called: list[str] = []
    files = machine.begin(0)
    files.on_call = called.append
    machine.run(files)
    end = len(called) - called[::-1].index("rename")
    for number in [*range(end - 14, end + 3), *range(1, end - 14, max(end // 4, 1))]:
        files = machine.begin(number)
        files.die_at = number
        machine.run(files)
        machine.check(made[1], number)


@pytest.mark.parametrize("site", SYNCS)
def test_without_any_one_sync_a_mend_may_cost_the_damaged_file(
    made: tuple[Scene, Content], tmp_path: Path, site: str
) -> None:
    machine = Machine(copy_of(made[0], tmp_path / "copy"))
    for seed in range(100):
        files = machine.begin(seed)
        files.skipped_site = site
        files.on_skip = partial(_end_soon, files, seed, SYNCS[site])
        machine.run(files)
        try:
            machine.check(made[1], seed)
        except (AssertionError, LogDamaged):
            return
    pytest.fail("nobody noticed")


def _end_soon(files: LossyFiles, seed: int, calls_max: int) -> None:
    files.die_at = files.calls + max(calls_max - seed % 6, 2)
