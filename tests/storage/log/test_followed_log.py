"""A follower's log is its primary's, byte for byte, and says the same."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyroaring import BitMap64

from lakemq.model.errors import LakemqError, LogDamaged, NotLeader, StoreUnwritable
from lakemq.storage.log.appends import Key
from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.log.followed_log import FollowedLog
from lakemq.storage.log.next_frames import next_frames
from lakemq.storage.log.positions import RESERVED, UNKNOWN_BLOCK, WRITTEN, forget_confirming, note_confirming
from lakemq.storage.mend.erasure import Eraser
from lakemq.storage.mend.replacing import Replacing
from lakemq.storage.mend.verify import verify_log
from lakemq.storage.read.hiding import hide_from
from lakemq.storage.read.plans import Plans
from lakemq.storage.read.spans import Span
from lakemq.storage.segment.frame import decode_meta
from tests.storage.harness import LogHarness, incompressible


class Follower(LogHarness):
    """The follower of a log whose files are given to it."""

    kind = FollowedLog

    def begin(self, primary: LogHarness) -> Follower:
        """Open it with the state that the primary's log begins with."""
        first = primary.segment_paths()[0]
        data = first.read_bytes()
        self.files.make_dirs(self.directory)
        self.files.replace(self.directory / first.name, [data[: decode_meta(data).frame_bytes]])
        self.open()
        return self

    @property
    def followed(self) -> FollowedLog:
        assert isinstance(self.log, FollowedLog)
        return self.log

    def take(self, data: bytes) -> None:
        """Take what follows."""
        page = next_frames(data, self.log.next_position, self.log.identity.now)
        assert page.fault is None
        self.run(self.followed.take(page.frames))

    def catch_up(self, primary: LogHarness) -> None:
        """Take all that the primary has, as its frames come: from the frame on that is due here."""
        for path in primary.segment_paths():
            data = path.read_bytes()
            own = {segment.path.name: segment.size for segment in self.log.segments}.get(path.name, 0)
            if own < len(data):
                self.take(data[own:])


@pytest.fixture
def follower(tmp_path: Path, harness: LogHarness) -> Iterator[Follower]:
    """The follower of `harness`, with nothing yet."""
    made = Follower(tmp_path / "follower").begin(harness)
    yield made
    if made.is_open:
        made.crash()


def files_of(harness: LogHarness) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in harness.segment_paths()}


def some_traffic(harness: LogHarness) -> None:
    harness.append("a", 1, b"one", b"two", key=Key("key", "digest"))
    harness.roll("a", 2)
    harness.append_batch("a", [(0, [b"x", b"y"]), (3, [b"z"])])
    harness.delete_topic("a")
    harness.put_topic("a", 6)
    harness.append("a", 5, incompressible(1, 100_000))
    harness.roll("a")


def test_the_files_are_the_same_and_so_is_the_state(harness: LogHarness, follower: Follower) -> None:
    for number in range(3):
        some_traffic(harness)
        if number == 1:
            follower.reopen()
        follower.catch_up(harness)
        assert files_of(follower) == files_of(harness)
        assert follower.log.state.dump() == harness.log.state.dump()
        assert follower.read_log() == harness.read_log()
        for queue_id in range(6):
            assert follower.read_queue("a", queue_id) == harness.read_queue("a", queue_id)
    assert len(follower.segment_paths()) > 6
    follower.close()
    assert verify_log(follower.directory.parent).sound


def test_a_state_that_is_there_already_is_passed_over(harness: LogHarness, follower: Follower) -> None:
    harness.log.begin_segment()
    while len(harness.log.segments) < 2:
        harness.settle()
    state = harness.active.path.read_bytes()
    for _ in range(2):
        follower.catch_up(harness)
        follower.take(state)
        follower.reopen()
    harness.append("a", 0, b"next")
    follower.take(harness.active.path.read_bytes())
    assert files_of(follower) == files_of(harness)


def test_an_epoch_that_begins_with_what_was_lost_begins_here_too(harness: LogHarness, follower: Follower) -> None:
    harness.append("a", 0, b"kept")
    follower.catch_up(harness)
    epochs: list[int] = []
    follower.followed.on_epoch = lambda: epochs.append(follower.log.identity.now.epoch)
    harness.crash()
    (harness.directory / WRITTEN).unlink()
    harness.files.boots += 1
    harness.open()
    harness.append("a", 0, b"after")
    follower.catch_up(harness)
    assert (files_of(follower), epochs) == (files_of(harness), [2])
    assert follower.queue("a", 0).gaps == harness.queue("a", 0).gaps != []
    assert follower.log.identity.epochs == harness.log.identity.epochs
    follower.reopen()
    assert follower.log.state.dump() == harness.log.state.dump()


def test_what_begins_an_epoch_shows_nothing_before_it_is_confirmed(harness: LogHarness, follower: Follower) -> None:
    harness.put_topic("a", 2)
    harness.append("a", 0, b"confirmed")
    follower.catch_up(harness)
    follower.run(follower.log.flushed())
    confirmed = follower.log.next_position
    follower.log.confirmed.limit(confirmed)
    follower.followed.sync_always = True
    for number in range(2):  # the first one is given before the gap, and the second one after it
        harness.append("a", 0, b"not confirmed")
        if not number:
            harness.crash()
            (harness.directory / WRITTEN).unlink()
            harness.open()
    follower.catch_up(harness)
    for begins_anew in (False, True):
        if begins_anew:
            follower.reopen()
            follower.log.confirmed.begin(confirmed)
            follower.followed.sync_always = True
            hide_from(follower.log, follower.reader, confirmed)
        queue, other = follower.queue("a", 0), follower.queue("a", 1)
        assert queue.gaps == harness.queue("a", 0).gaps != []
        assert (queue.begin_offset, queue.end_offset, queue.after_gap(1), queue.after_gap(2)) == (0, 1, 1, 2)
        assert (other.begin_offset, other.end_offset) == (0, 0)
        of_one, of_none = follower.run(Plans(follower.reader).spans([queue, other], asyncio.to_thread))
        assert of_one.oldest_ms == of_one.newest_ms is not None
        assert of_none == Span()
        assert other.min_offset > 0
    follower.log.confirmed.limit(follower.log.next_position)
    follower.run(follower.log.flushed())
    assert (queue.end_offset, other.end_offset) == (queue.next_offset, other.next_offset)
    of_one, of_none = follower.run(Plans(follower.reader).spans([queue, other], asyncio.to_thread))
    assert None not in of_one
    assert of_none == Span()
    assert queue.after_gap(2) == queue.gaps[0][1]
    assert [queue.before_gap(each) for each in (0, queue.gaps[0][1] - 1, queue.gaps[0][1])] == [
        0,
        queue.gaps[0][0] - 1,
        queue.gaps[0][1],
    ]
    assert other.begin_offset == other.min_offset


def test_who_waits_for_a_queue_goes_on_waiting_over_the_beginning_of_a_segment(
    harness: LogHarness, follower: Follower
) -> None:
    harness.append("a", 0, b"first")
    follower.catch_up(harness)
    queue, waiter = follower.queue("a", 1), follower.loop.create_future()
    queue.waiters.add(waiter)
    harness.roll("a", 0)
    follower.catch_up(harness)
    assert not waiter.done()
    harness.append("a", 1, b"awaited")
    follower.catch_up(harness)
    assert waiter.done()
    assert queue is follower.queue("a", 1)
    assert queue.next_offset == 1


def test_nothing_is_appended_but_what_the_primary_wrote(harness: LogHarness, follower: Follower) -> None:
    follower.catch_up(harness)
    before = files_of(follower)
    follower.followed.leader = "http://leads:1"
    with pytest.raises(NotLeader, match="http://leads:1") as refused:
        follower.append("a", 0, b"x")
    assert refused.value.leader == "http://leads:1"
    follower.log.begin_segment()
    follower.settle()
    assert files_of(follower) == before


def test_without_room_it_stops_at_a_whole_frame_and_goes_on_when_there_is_some(
    harness: LogHarness, follower: Follower
) -> None:
    some_traffic(harness)
    follower.files.room_bytes = 500_000
    with pytest.raises(StoreUnwritable):
        follower.catch_up(harness)
    theirs = files_of(harness)
    assert all(theirs[name].startswith(data) for name, data in files_of(follower).items())
    assert "can't be written" in str(follower.log.unwritable)
    follower.files.room_bytes = None
    follower.log.retain()
    assert follower.log.unwritable is None
    follower.catch_up(harness)
    assert files_of(follower) == theirs


def test_a_frame_that_is_left_torn_stops_it_until_a_start_cuts_it(harness: LogHarness, follower: Follower) -> None:
    harness.append("a", 0, b"x" * 1000)
    follower.files.room_bytes, follower.files.fail_truncate = 500, True
    with pytest.raises(StoreUnwritable):
        follower.catch_up(harness)
    follower.files.room_bytes, follower.files.fail_truncate = None, False
    with pytest.raises(StoreUnwritable, match="restart the gateway"):
        follower.catch_up(harness)
    follower.reopen()
    assert follower.log.torn_bytes > 0
    follower.catch_up(harness)
    assert files_of(follower) == files_of(harness)


def test_what_frames_say_was_on_disk_was_on_the_primarys(harness: LogHarness, follower: Follower) -> None:
    for number in range(4):
        harness.append("a", number, b"%d" % number)
        harness.flush()
    follower.catch_up(harness)
    follower.crash()
    path = follower.segment_paths()[-1]
    content = bytearray(path.read_bytes())
    bad = len(content) - 3 * decode_meta(bytes(content), content.rindex(b"LMQF\xfe")).frame_bytes + 8
    content[bad] ^= 1
    path.write_bytes(content)
    follower.files.boots += 1  # a power cut left the later frames, of which the last says that the bad one was on disk
    follower.kind = LogHarness.kind
    with pytest.raises(LogDamaged):
        follower.open()
    follower.kind = FollowedLog
    follower.open()
    assert follower.log.torn_bytes > 0
    follower.catch_up(harness)
    assert files_of(follower) == files_of(harness)


def test_a_primary_that_begins_with_a_followers_files_passes_over_all_that_may_have_been_given(
    harness: LogHarness, follower: Follower
) -> None:
    for name in (RESERVED, WRITTEN):  # it was a primary once
        (follower.directory / name).write_bytes((harness.directory / name).read_bytes())
    harness.append("a", 0, b"both have it")
    follower.reopen()
    follower.catch_up(harness)
    follower.close()
    end, epoch = harness.log.next_position, harness.log.identity.now.epoch
    harness.append("a", 0, b"only the old primary has it")
    follower.kind = LogHarness.kind
    follower.open()
    assert follower.log.next_position == end + UNKNOWN_BLOCK
    assert follower.log.identity.now.epoch > epoch + 1
    assert follower.append("a", 0, b"new").placed[0].position == end + UNKNOWN_BLOCK


class ElectedLog(CommitLog):
    """That of who was elected: it begins epoch 7."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.begins_epoch = 7


@pytest.mark.parametrize("notes", ["of its epoch", "of another epoch", "forgotten", "none"])
def test_who_is_elected_goes_on_where_its_log_ends_if_nobody_was_told_of_more(
    harness: LogHarness, follower: Follower, notes: str
) -> None:
    harness.put_topic("a", 2)
    harness.append("a", 0, b"0")
    follower.reopen()
    follower.catch_up(harness)
    follower.close()
    now = harness.log.identity.now
    if notes != "none":
        noted = now._replace(epoch=now.epoch + 1) if notes == "of another epoch" else now
        note_confirming(follower.files, follower.directory, noted)
    if notes == "forgotten":
        forget_confirming(follower.files, follower.directory)
    end = harness.log.next_position
    harness.append("a", 0, b"told to nobody")
    follower.kind = ElectedLog
    follower.open()
    assert follower.log.identity.now.epoch == 7
    (placed,) = follower.append("a", 0, b"1").placed
    if notes != "of its epoch":
        assert placed.position >= end + UNKNOWN_BLOCK
        return
    assert (placed.position, placed.queue_offset) == (end + 1, 1)
    for _ in range(2):  # the same when its frames are read again, also by a follower
        queue = follower.queue("a", 0)
        assert (queue.next_offset, queue.gaps, queue.after_gap(1)) == (2, [], 1)
        assert [message.body for message in follower.read_queue("a", 0)] == [b"0", b"1"]
        follower.crash()
        for path in follower.directory.glob("*.idx"):
            path.unlink()
        follower.kind = FollowedLog
        follower.open()
    follower.close()
    assert verify_log(follower.settings.data_dir).sound


def test_a_follower_without_a_log_begins_none(tmp_path: Path) -> None:
    empty = Follower(tmp_path / "empty")
    with pytest.raises(LakemqError, match="nothing of the primary's log"):
        empty.open()
    assert not any(path.suffix == ".log" for path in empty.directory.iterdir())


def test_effects_that_were_erased_before_they_came_are_in_the_state_all_the_same(
    harness: LogHarness, follower: Follower
) -> None:
    harness.put_topic("made", 2)
    record = harness.log.next_position - 1
    harness.roll("a")
    _erase(harness, record)
    follower.catch_up(harness)
    assert files_of(follower) == files_of(harness)
    assert len(follower.log.topics.get("made").queues) == 2
    assert follower.log.state.dump() == harness.log.state.dump()


def _erase(harness: LogHarness, position: int) -> None:
    eraser = Eraser(harness.log, harness.reader, Replacing(harness.log, harness.reader))
    assert harness.run(eraser.erase(BitMap64([position]))).erased == 1
