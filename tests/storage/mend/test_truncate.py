"""A log is cut where its leader's goes on otherwise, and is as if the rest had never come."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakemq.model.errors import LakemqError, LogDamaged
from lakemq.settings import MIB
from lakemq.storage.log.appends import Key
from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.log.cutting import CUTTING, Cut
from lakemq.storage.log.followed_log import FollowedLog
from lakemq.storage.log.positions import RESERVED, UNKNOWN_BLOCK, UNKNOWN_EPOCHS, WRITTEN, Reserved, read_given
from lakemq.storage.mend.closed_log import ClosedLog
from lakemq.storage.mend.repair import repair_log
from lakemq.storage.mend.truncate import CutRefused, cut_log
from lakemq.storage.mend.verify import verify_log
from lakemq.storage.read.idempotency import IdempotencyTable
from lakemq.storage.segment.segment import open_frame
from tests.storage.cut_logs import Was, begin_epoch, begin_segment, files_of, make_log, open_as_follower
from tests.storage.harness import LogHarness

NOBODY = Reserved(0, 0)


class Scene:
    """A log that was closed, or whose process died, and what it was at each frame's end; copies of it are cut."""

    def __init__(self, root: Path, closed: bool = True) -> None:
        harness = LogHarness(root / "log")
        self.ends = make_log(harness)
        self.end = harness.log.next_position
        if closed:
            harness.close()
        else:
            harness.crash()
        self._root, self._count = root, 0

    def copy(self) -> LogHarness:
        """Another one like it."""
        self._count += 1
        folder = self._root / str(self._count)
        shutil.copytree(self._root / "log", folder)
        return LogHarness(folder)

    def end_before(self, position: int) -> int:
        """The last frame's end at or before that position."""
        return max(each for each in self.ends if each <= position)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return Scene(tmp_path_factory.mktemp("closed"))


@pytest.fixture
def copy(scene: Scene) -> Iterator[LogHarness]:
    made = scene.copy()
    yield made
    if made.is_open:
        made.crash()


def cut(harness: LogHarness, position: int, floor: int = 0, leaders: Reserved = NOBODY, kept: int = MIB) -> Cut | None:
    return cut_log(ClosedLog(harness.files, harness.directory), position, floor, leaders, kept)


def kept_files(harness: LogHarness) -> list[str]:
    return sorted(path.name for path in harness.directory.glob("cut-*"))


def messages_in(data: bytes) -> list[tuple[int, bytes]]:
    """Position and body of each message in a file of frames."""
    found: list[tuple[int, bytes]] = []
    at = 0
    while at < len(data):
        frame = open_frame(data, at)
        if frame.meta.count:
            bodies = frame.batch.column("body").to_pylist()
            found += [(frame.meta.first_position + number, body) for number, body in enumerate(bodies)]
        at += frame.meta.frame_bytes
    return found


def look(harness: LogHarness, was: Was) -> None:
    """The log is as it was then."""
    assert files_of(harness) == was.files
    other = open_as_follower(harness.settings.data_dir, harness.files.boots)
    try:
        assert other.log.state.dump() == was.state
        assert other.log.torn_bytes == 0
    finally:
        other.close()
    assert verify_log(harness.settings.data_dir).sound


@pytest.mark.parametrize("closed", [True, False])
def test_cut_anywhere_it_is_as_if_the_rest_had_never_come(tmp_path: Path, closed: bool) -> None:
    made = Scene(tmp_path, closed)
    for position in range(made.end):
        harness, end = made.copy(), made.end_before(position)
        done = cut(harness, position)
        assert done is not None
        assert (done.position, done.positions) == (end, made.end - end)
        look(harness, made.ends[end])


def test_what_it_has_not_beyond_is_not_cut(scene: Scene, copy: LogHarness) -> None:
    before = {path.name: path.read_bytes() for path in copy.directory.iterdir()}
    assert cut(copy, scene.end) is None
    assert cut(copy, scene.end + 10) is None
    assert {path.name: path.read_bytes() for path in copy.directory.iterdir()} == before


def test_what_was_cut_is_kept_frame_by_frame_and_counted(scene: Scene, copy: LogHarness) -> None:
    copy.open()
    before = copy.read_log()
    copy.close()
    end = scene.end_before(12)
    done = cut(copy, 12)
    assert done is not None
    (name,) = kept_files(copy)
    assert (done.kept, name) == (name, f"cut-1-{end}.frames")
    kept = messages_in((copy.directory / name).read_bytes())
    assert kept == [(message.position, message.body) for message in before if message.position >= end]
    assert done.kept_positions == done.positions == len(kept)
    assert done.messages == sum(not message.topic.startswith("RMQ_SYS") for message in before[end:]) < len(kept)


def test_of_what_is_cut_the_first_frames_are_kept_where_there_is_no_room_for_all(
    scene: Scene, copy: LogHarness
) -> None:
    done = cut(copy, 3, kept=1_000)
    assert done is not None
    kept = (copy.directory / done.kept).read_bytes()
    assert 0 < len(kept) <= 1_000
    assert 0 < done.kept_positions == len(messages_in(kept)) < done.positions
    other = scene.copy()
    nothing = cut(other, 3, kept=0)
    assert nothing is not None
    assert (nothing.kept, nothing.kept_positions, nothing.positions) == ("", 0, done.positions)
    assert kept_files(other) == []


def test_the_oldest_of_what_was_cut_goes_where_newer_ones_need_the_room(scene: Scene, copy: LogHarness) -> None:
    for epoch, position in ((1, 9), (1, 10), (2, 5)):
        copy.files.replace(copy.directory / f"cut-{epoch}-{position}.frames", [bytes(400)])
    done = cut(copy, scene.end - 1, kept=1_000)
    assert done is not None
    assert kept_files(copy) == [done.kept, "cut-2-5.frames"]


def test_what_was_kept_before_is_not_lost_for_another_cut_at_the_same_place(scene: Scene, copy: LogHarness) -> None:
    name = f"cut-1-{scene.end_before(12)}.frames"
    (copy.directory / name).write_bytes(b"of another cut")
    done = cut(copy, 12)
    assert done is not None
    assert done.kept == name.replace(".frames", "-2.frames")
    assert (copy.directory / name).read_bytes() == b"of another cut"


@pytest.mark.parametrize("room", [0, 1_500, 2_500])
def test_a_cut_that_the_disk_has_no_room_for_changes_nothing_and_keeps_it_once(
    scene: Scene, copy: LogHarness, room: int
) -> None:
    before = files_of(copy)
    for _ in range(3):
        copy.files.room_bytes = room
        try:
            cut(copy, 12)
        except OSError as error:
            assert "No space" in str(error)  # noqa: PT017
            assert not (copy.directory / CUTTING).exists()
            assert files_of(copy) == before
        copy.files.room_bytes = None
    if files_of(copy) == before:
        cut(copy, 12)
    look(copy, scene.ends[scene.end_before(12)])
    assert len(kept_files(copy)) == 1


def test_nothing_is_cut_below_what_must_stay_or_has_left_the_log(scene: Scene, copy: LogHarness) -> None:
    before = {path.name: path.read_bytes() for path in copy.directory.iterdir()}
    end = scene.end_before(12)
    with pytest.raises(CutRefused, match=f"at position {end}, and may not be below {end + 1}"):
        cut(copy, 12, floor=end + 1)
    assert {path.name: path.read_bytes() for path in copy.directory.iterdir()} == before
    first, second, *_ = copy.segment_paths()
    first.unlink()
    first.with_suffix(".idx").unlink()
    with pytest.raises(CutRefused, match=f"and begins with {int(second.stem)}"):
        cut(copy, int(second.stem) - 1)
    assert cut(copy, int(second.stem), floor=int(second.stem)) is not None
    assert [path.name for path in copy.segment_paths()] == [second.name]
    other = open_as_follower(copy.settings.data_dir)
    assert other.log.min_position == other.log.next_position == int(second.stem)
    other.close()


def test_idempotency_keys_of_what_was_cut_are_forgotten_and_others_known(scene: Scene, copy: LogHarness) -> None:
    def keys(harness: LogHarness) -> set[str]:
        other = open_as_follower(harness.settings.data_dir)
        table = IdempotencyTable(600_000, 1_000)
        table.load(other.reader, other.log.now_ms())
        asked = [Key(f"key {number} {count}", "digest") for number in range(3) for count in range(4)]
        known = {key.key for key in asked if table.known(key, other.log.now_ms()) is not None}
        other.close()
        return known

    assert len(keys(copy)) == 12
    cut(copy, scene.end_before(20))
    left = keys(copy)
    assert 0 < len(left) < 12


def test_a_cut_within_an_older_epoch_forgets_the_newer_ones(harness: LogHarness) -> None:
    harness.append("a", 0, b"kept")
    kept, was = harness.log.next_position, Was(files_of(harness), harness.log.state.dump())
    harness.append("a", 0, b"cut")
    begin_epoch(harness)
    harness.append("a", 0, b"cut too")
    begin_segment(harness)
    harness.append("a", 0, b"and this")
    assert harness.log.identity.now.epoch == 2
    harness.close()
    done = cut(harness, kept)
    assert done is not None
    assert done.epoch == 1
    look(harness, was)


def test_a_torn_tail_and_a_segment_that_was_never_begun_are_no_part_of_it(scene: Scene, copy: LogHarness) -> None:
    with copy.segment_paths()[-1].open("ab") as file:
        file.write(b"LMQF torn")
    (copy.directory / f"{scene.end:020}.log").write_bytes(b"half a state")
    closed = ClosedLog(copy.files, copy.directory)
    assert closed.history.end == scene.end
    assert cut_log(closed, scene.end, 0, NOBODY, MIB) is None
    cut(copy, scene.end - 1)
    look(copy, scene.ends[scene.end_before(scene.end - 1)])


def test_a_directory_without_a_log_has_none_to_cut(tmp_path: Path) -> None:
    harness = LogHarness(tmp_path)
    harness.files.make_dirs(harness.directory)
    with pytest.raises(LakemqError, match="there is no log"):
        ClosedLog(harness.files, harness.directory)


# What was given -----------------------------------------------------------------------------------


def test_a_log_that_was_cut_never_gives_what_it_or_its_leader_gave(harness: LogHarness, tmp_path: Path) -> None:
    """The old primary has more than the follower that takes its place, follows that one without having got anything
    of it, and takes its place again."""
    harness.append("a", 0, b"both have it")
    harness.flush()
    both = harness.log.next_position
    shutil.copytree(harness.directory, tmp_path / "leader/commitlog")
    harness.append("a", 0, b"only the old one has it")
    own_end = harness.log.next_position
    harness.crash()
    leader = open_as_follower(tmp_path / "leader")
    leader.close()
    leader.kind = CommitLog
    leader.open()
    told = [leader.append("a", queue_id, b"of the new one").placed[0] for queue_id in range(4)]
    epoch, end = leader.log.identity.now.epoch, leader.log.next_position
    leader.close()
    assert end > both + UNKNOWN_BLOCK

    assert cut(harness, both, leaders=Reserved(epoch, end)) is not None
    assert not any((harness.directory / name).exists() for name in (RESERVED, WRITTEN))
    harness.kind = FollowedLog
    harness.open()
    assert harness.log.next_position == both
    harness.close()
    harness.kind = CommitLog
    harness.open()
    assert harness.log.identity.now.epoch > epoch + UNKNOWN_EPOCHS
    assert harness.log.next_position >= max(own_end, end) + UNKNOWN_BLOCK
    for place in told:
        again = harness.append("a", place.queue_id, b"of the old one").placed[0]
        assert again.position > place.position
        assert again.queue_offset > place.queue_offset
    now = harness.log.next_position, harness.log.identity.now
    harness.reopen()  # what was given is in the log now, and is passed over once
    assert (harness.log.next_position, harness.log.identity.now) == now


def test_what_a_primary_reserved_beyond_its_end_is_given_by_no_log_that_was_cut(copy: LogHarness) -> None:
    copy.open()
    bound = copy.log._positions.bound  # pyright: ignore[reportPrivateUsage]
    log = copy.log.identity.now
    copy.crash()
    cut(copy, 5)
    assert read_given(copy.files, copy.directory, log.log_id) == Reserved(1, bound)
    assert read_given(copy.files, copy.directory, bytes(16)) is None
    copy.open()
    assert copy.log.next_position == bound + UNKNOWN_BLOCK


# A cut that was interrupted -----------------------------------------------------------------------


def interrupted(harness: LogHarness) -> None:
    """Leave the log where the cut has begun, and nothing is done of it."""
    closed = ClosedLog(harness.files, harness.directory)

    class PowerIsOff(Exception):
        pass

    def off(*_: object) -> None:
        raise PowerIsOff

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("lakemq.storage.mend.truncate.finish_cut", off)
        with pytest.raises(PowerIsOff):
            cut_log(closed, 12, 0, NOBODY, MIB)


def test_a_cut_that_had_begun_is_made_by_a_start_by_a_repair_and_named_by_verify(scene: Scene) -> None:
    by_start, by_repair, by_reading = (scene.copy() for _ in range(3))
    for each in (by_start, by_repair, by_reading):
        interrupted(each)
        (damage,) = verify_log(each.settings.data_dir).damages
        assert (damage.segment, "start the gateway" in damage.reason) == (CUTTING, True)
    assert repair_log(by_repair.settings.data_dir).segments_rewritten == []
    made = ClosedLog(by_reading.files, by_reading.directory).cut_before
    assert made is not None
    assert made.position == scene.end_before(12)
    for each in (by_start, by_repair, by_reading):
        other = open_as_follower(each.settings.data_dir)
        assert other.log.next_position == scene.end_before(12)
        other.close()
        look(each, scene.ends[scene.end_before(12)])


@pytest.mark.parametrize("content", [b"half of it", b"{}\n3549301378\n"])
def test_a_cut_of_which_nothing_can_be_read_is_refused_by_a_start(copy: LogHarness, content: bytes) -> None:
    (copy.directory / CUTTING).write_bytes(content)
    with pytest.raises(LogDamaged, match="isn't known how the log was cut"):
        copy.open()


def test_a_cut_within_a_segment_that_is_missing_is_refused_by_a_start(copy: LogHarness) -> None:
    interrupted(copy)
    copy.segment_paths()[1].unlink()
    with pytest.raises(LogDamaged, match="it is missing, and the log was to be cut within it"):
        copy.open()
