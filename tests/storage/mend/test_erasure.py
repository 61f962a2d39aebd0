"""Erased messages are in no file of the log; all others are where they were, whatever crashes."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from pyroaring import BitMap64

from lakemq.model.errors import LakemqError, MessageNotFound, StoreUnwritable
from lakemq.storage.log.appends import Key
from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.mend.erasure import Erased, Eraser, remove_scratch
from lakemq.storage.mend.replacing import Replacing
from lakemq.storage.mend.verify import verify_log
from lakemq.storage.read.reader import Reader
from lakemq.storage.read.row_reader import RowReader
from lakemq.testing import FaultyFiles, LossyFiles
from tests.storage.harness import LogHarness, Message, begin_segment, incompressible, messages_of, plan_rows_now
from tests.storage.stopping_files import Stopped, StoppingFiles


def fill(harness: LogHarness, chance: random.Random) -> list[Message]:
    """Frames of all shapes in three segments and the one that is written; all messages that erasing
    is tried on."""
    harness.put_topic("a", 2)
    harness.put_topic("b", 1)
    for number in range(3):
        for _ in range(12):
            bodies = [f"m{chance.random()}".encode() for _ in range(chance.choice([1, 2, 9]))]
            harness.append_batch("a", [(0, bodies), (1, bodies[:1])])
            harness.append("b", 0, *bodies)
        harness.roll("b")
        harness.append("a", 1, f"first of {number}".encode())
    return [message for message in harness.read_log() if message.topic in "ab"]


def eraser_of(log: CommitLog, reader: Reader) -> Eraser:
    return Eraser(log, reader, Replacing(log, reader))


def erase(harness: LogHarness, positions: set[int]) -> Erased:
    return harness.run(eraser_of(harness.log, harness.reader).erase(BitMap64(positions)))


def check(harness: LogHarness, kept: list[Message]) -> None:
    """The log holds just these, read by position and by queue, and all its files are sound."""
    assert [message for message in harness.read_log() if message.topic in "ab"] == kept
    for topic, queue_id in (("a", 0), ("a", 1), ("b", 0)):
        expected = [message for message in kept if (message.topic, message.queue_id) == (topic, queue_id)]
        assert harness.read_queue(topic, queue_id) == expected
    harness.flush()
    assert verify_log(harness.settings.data_dir).sound


def bytes_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


@pytest.mark.parametrize("share", [0.02, 0.5, 1.0])
@pytest.mark.parametrize("cache_bytes", [0, 32 * 2**20])
def test_erased_messages_are_gone_and_all_others_stay(tmp_path: Path, share: float, cache_bytes: int) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    harness = LogHarness(tmp_path, cache_bytes=cache_bytes).open()
    messages = fill(harness, chance)
    chosen = {message.position for message in messages if chance.random() < share} | {messages[-1].position}
    small = [message.body for message in messages if message.position in chosen and len(message.body) < 100]
    ends = [queue.next_offset for queue in harness.log.topics.all_queues()]
    assert erase(harness, chosen)[:3] == (len(chosen), 0, 0), seed
    kept = [message for message in messages if message.position not in chosen]
    check(harness, kept)
    survivors = {message.body for message in kept}
    files = bytes_of(tmp_path)
    assert not [body for body in small if body in files and body not in survivors], seed
    assert erase(harness, chosen)[:3] == (0, len(chosen), 0)
    for restart in (harness.reopen, _without_indexes(harness)):
        restart()
        check(harness, kept)
        assert [queue.next_offset for queue in harness.log.topics.all_queues()] == ends
    (stored,) = harness.append("b", 0, b"after").placed
    kept.append(Message("b", 0, ends[-1], stored.position, b"after", harness.log.now_ms()))
    check(harness, kept)
    harness.close()


def _without_indexes(harness: LogHarness) -> Callable[[], None]:
    def restart() -> None:
        harness.crash()
        for path in harness.directory.glob("*.idx"):
            path.unlink()
        harness.open()

    return restart


@pytest.mark.timeout(900)  # many starts: minutes on a machine that does much else
def test_a_crash_at_any_step_leaves_each_message_erased_or_there_and_the_next_try_ends_it(tmp_path: Path) -> None:
    chance = random.Random(7)
    step = finished = 0
    while not finished:
        harness = LogHarness(tmp_path / str(step))
        files = harness.files = StoppingFiles()
        harness.open()
        harness.put_topic("a", 2)
        harness.put_topic("b", 1)
        for _ in range(2):
            harness.append("a", 0, b"one", b"two", b"three")
            harness.roll("b")
        erase(harness, {harness.log.next_position - 1})  # what comes now is about sealed segments
        messages = [message for message in harness.read_log() if message.topic in "ab"]
        chosen = {message.position for message in messages if message.body == b"two" or chance.random() < 0.2}
        files.steps_left = step
        with suppress(Stopped):
            finished = erase(harness, chosen).erased
        files.steps_left = -1
        harness.reopen()
        remove_scratch(files, harness.directory)
        left = [message for message in harness.read_log() if message.topic in "ab"]
        assert [message for message in left if message.position not in chosen] == [
            message for message in messages if message.position not in chosen
        ]
        assert all(message in messages for message in left)
        erase(harness, chosen)
        check(harness, [message for message in messages if message.position not in chosen])
        assert not list(harness.directory.glob("*.erase*"))
        harness.close()
        step += 1
    assert step > 10


def test_who_has_planned_before_reads_on(tmp_path: Path) -> None:
    harness = LogHarness(tmp_path, cache_bytes=0).open()
    messages = fill(harness, random.Random(1))
    plan = harness.reader.plan_positions(messages[0].position, messages[-1].position + 1, None, 2**30)
    queue_plan = harness.reader.plan(harness.queue("b"), 0, 1000, 2**30)
    erase(harness, {message.position for message in messages[::2]})
    assert sum(part.count for part in harness.reader.read_positions(plan, {"a", "b"})) == len(messages)
    assert harness.reader.read(queue_plan)
    harness.close()


def test_a_disk_without_room_for_a_second_copy_is_an_error_and_nothing_changes(tmp_path: Path) -> None:
    harness = LogHarness(tmp_path).open()
    messages = fill(harness, random.Random(2))
    harness.roll("b")
    messages = [message for message in harness.read_log() if message.topic in "ab"]
    harness.files.room_bytes = 1000
    with pytest.raises(StoreUnwritable):
        erase(harness, {messages[0].position})
    harness.files.room_bytes = None
    check(harness, messages)
    harness.close()


def test_a_damaged_segment_is_an_error_and_stays_as_it_is(tmp_path: Path) -> None:
    harness = LogHarness(tmp_path, cache_bytes=0).open()
    messages = fill(harness, random.Random(3))
    first = harness.segment_paths()[0]
    content = bytearray(first.read_bytes())
    content[len(content) // 2] ^= 1
    first.write_bytes(content)
    with pytest.raises(LakemqError):
        erase(harness, {messages[0].position})
    assert first.read_bytes() == content
    assert not list(harness.directory.glob("*.erase*"))
    harness.crash()


def test_a_request_is_known_by_its_key_when_another_of_its_messages_was_erased(tmp_path: Path) -> None:
    harness = LogHarness(tmp_path).open()
    harness.put_topic("a", 1)
    stored = harness.append("a", 0, b"one", b"two", incompressible(1, 100), key=Key("k", "p"))
    erase(harness, {stored.placed[1].position})
    (note,) = harness.reader.index(harness.log.segments[0]).notes
    frame = harness.reader.message(note.position).frame
    assert frame.meta.notes
    assert note.position == stored.placed[0].position
    harness.close()


def test_a_hole_that_was_looked_up_is_no_message_to_who_reads_the_log(tmp_path: Path) -> None:
    """Holes were kept with the frames that were read last: readers took them for messages without bodies."""
    harness = LogHarness(tmp_path).open()
    harness.put_topic("a", 1)
    stored = harness.append("a", 0, b"one", b"two", b"three")
    gone = stored.placed[1].position
    reader = RowReader(harness.log)
    harness.run(eraser_of(harness.log, reader).erase(BitMap64([gone])))
    assert reader.read_rows(plan_rows_now(reader, [gone]), 2**20).lost == [gone]
    plan = reader.plan_positions(0, harness.log.next_position, {"a"}, 2**20)
    assert [message.body for message in messages_of(reader.read_positions(plan, {"a"}))] == [b"one", b"three"]
    with pytest.raises(MessageNotFound):
        reader.message(gone)
    harness.close()


class _Leaving(FaultyFiles):
    """The oldest segment leaves the log as an index is read."""

    leave: Callable[[], object] | None = None

    def open_read(self, path: Path) -> int:
        leave, self.leave = (self.leave, None) if path.suffix == ".idx" else (None, self.leave)
        if leave is not None:
            leave()
        return super().open_read(path)


def test_a_segment_that_leaves_the_log_as_its_index_is_read_has_nothing_to_erase(tmp_path: Path) -> None:
    harness = LogHarness(tmp_path)
    files = harness.files = _Leaving()
    harness.open().put_topic("a", 1)
    (gone,) = harness.append("a", 0, b"one").placed
    harness.run(begin_segment(harness.log))
    (kept,) = harness.append("a", 0, b"two").placed
    harness.run(begin_segment(harness.log))
    log = harness.log
    done = threading.Event()

    def leave() -> None:
        assert threading.current_thread() is not threading.main_thread()
        remove = partial(log._store.remove_oldest, log.topics)  # pyright: ignore[reportPrivateUsage]
        harness.loop.call_soon_threadsafe(lambda: (remove(), done.set()))
        assert done.wait(60)

    files.leave = leave
    assert erase(harness, {gone.position, kept.position})[:3] == (1, 1, 0)
    assert harness.log.min_position > gone.position
    assert harness.read_queue("a", 0) == []
    harness.close()


@pytest.mark.timeout(900)  # many starts: minutes on a machine that does much else
@pytest.mark.parametrize("seeds", [range(48), pytest.param(range(48, 400), marks=pytest.mark.long)])
def test_power_cut_at_any_new_name_leaves_what_a_start_takes(tmp_path: Path, seeds: range) -> None:
    for seed in seeds:
        root = tmp_path / str(seed)
        root.mkdir()
        files = LossyFiles(root, seed)
        harness = LogHarness(root)
        harness.files = files  # pyright: ignore[reportAttributeAccessIssue]
        harness.open().put_topic("a", 1)
        harness.append("a", 0, b"body 0", b"body 1", b"body 2")  # the new file will be longer than the old one
        harness.log.begin_segment()
        harness.flush()
        left = seed % 4 + 1

        def die(name: str, files: LossyFiles = files) -> None:
            nonlocal left
            left -= name == "rename"
            if name == "rename" and left == 0:
                files.die_at = files.calls

        files.on_call = die
        with suppress(LakemqError, OSError):
            erase(harness, {harness.log.next_position - 2})
        harness.crash()
        files.cut_power()
        files.on_call = lambda name: None
        bodies = {message.body for message in harness.open().read_queue("a", 0)}
        assert {b"body 0", b"body 2"} <= bodies, seed
        harness.crash()
