"""An erasure is a record: whatever crashes, who has the record carries it out before anything is served."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from lakemq.gateway.upkeep import erasures as upkeep
from lakemq.gateway.upkeep.erasures import Erasures
from lakemq.model.errors import Busy, LakemqError, StoreUnwritable
from lakemq.model.names import ERASURE_TOPIC, dead_letter_topic
from lakemq.storage.mend.erasure import Eraser, remove_scratch
from lakemq.storage.mend.replacing import Replacing
from lakemq.storage.read.store import Store
from lakemq.storage.state.erasure_record import Range, merge_ranges, pack_erasure, to_bitmap, unpack_erasure
from lakemq.storage.state.topics import Topic
from lakemq.testing import FaultyFiles
from tests.storage.harness import LogHarness
from tests.storage.mend.test_kept_erasure import UnreadableFiles, kept, make
from tests.storage.stopping_files import StoppingFiles

DEAD = dead_letter_topic("g")


def erasures_of(harness: LogHarness) -> Erasures:
    async def forget() -> None:
        """Nothing is kept elsewhere."""

    log, store = harness.log, Store.of(harness.log, "b")
    eraser = Eraser(log, store.reader, Replacing(log, store.reader))
    erasures = Erasures(store, eraser, harness.settings.data_dir, forget)
    erasures.open()
    return erasures


def erase(harness: LogHarness, erasures: Erasures, ranges: list[Range]) -> int:
    async def system_topic(name: str) -> Topic:
        return harness.log.topics.get(name)

    async def until_others(_: int, __: float) -> None:
        """There are none."""

    return harness.run(erasures.erase(ranges, system_topic, until_others)).erased


def begin(directory: Path, files: FaultyFiles) -> tuple[LogHarness, int]:
    """A log with a secret in its last segment; where that is."""
    harness = LogHarness(directory)
    harness.files = files
    harness.open()
    harness.put_topic("a", 1)
    harness.put_topic(ERASURE_TOPIC, 1)
    placed = harness.append("a", 0, b"one", b"secret", b"three").placed
    harness.flush()
    return harness, placed[1].position


def test_a_crash_at_any_step_leaves_all_as_it_was_or_an_erasure_that_the_next_start_carries_out(tmp_path: Path) -> None:
    step, finished, outcomes = 0, False, set[bool]()
    while not finished:
        files = StoppingFiles(OSError("the machine stopped"))
        harness, secret = begin(tmp_path / str(step), files)
        erasures = erasures_of(harness)
        files.steps_left = step
        with suppress(LakemqError, OSError):
            finished = bool(erase(harness, erasures, [(secret, secret + 1)]))
        files.steps_left = -1
        harness.reopen()
        remove_scratch(files, harness.directory)
        again = erasures_of(harness)
        harness.run(again.finish())
        recorded = harness.queue(ERASURE_TOPIC).next_offset
        found = [message.body for message in harness.read_queue("a", 0)]
        assert found == ([b"one", b"three"] if recorded else [b"one", b"secret", b"three"])
        assert again.done == recorded
        outcomes.add(bool(recorded))
        again.check_reads()
        harness.close()
        step += 1
    assert outcomes == {False, True}
    assert step > 10


def test_what_can_not_be_carried_out_is_done_once_it_can(tmp_path: Path) -> None:
    files = StoppingFiles(OSError("the machine stopped"))
    harness, secret = begin(tmp_path, files)
    harness.roll("a")
    harness.flush()
    erasures = erasures_of(harness)
    harness.append(ERASURE_TOPIC, 0, pack_erasure([(secret, secret + 1)]))
    harness.flush()
    files.steps_left = 0
    harness.run(erasures.finish())
    assert erasures.problem
    assert erasures.problem in erasures.degraded()
    files.steps_left = -1
    harness.run(erasures.go_on())
    assert (erasures.done, erasures.degraded()) == (1, [])
    assert b"secret" not in [message.body for message in harness.read_queue("a", 0)]
    harness.close()


def test_no_erasure_takes_the_records_of_others(tmp_path: Path) -> None:
    harness, _ = begin(tmp_path, FaultyFiles())
    erasures = erasures_of(harness)
    for _ in range(2):
        erase(harness, erasures, [(0, harness.log.next_position)])
    assert [message.queue_offset for message in harness.read_queue(ERASURE_TOPIC, 0)] == [0, 1]
    assert not harness.read_queue("a", 0)
    harness.close()


def test_a_dead_letter_that_is_only_in_the_lake_is_not_open_once_it_is_erased(tmp_path: Path) -> None:
    """It counted as open for ever, and no redrive found it."""
    harness = LogHarness(tmp_path, retention_ms=1_000).open()
    harness.put_topic(DEAD, 1)
    harness.put_topic(ERASURE_TOPIC, 1)
    harness.put_topic("a", 1)
    placed = harness.append(DEAD, 0, *(b"%d" % number for number in range(6))).placed[0].position
    while len(harness.log.segments) < 3:
        harness.roll("a")
    harness.settle()
    harness.log.retention.certain_position = harness.log.segments[-1].base_position
    harness.clock.time_ms += 2_000
    harness.log.retain()
    first = harness.log.min_position
    later = harness.append(DEAD, 0, b"later", b"last").placed[0].position
    harness.flush()
    assert [*harness.log.routing.dead] == [*range(placed, placed + 6), later, later + 1]
    assert first > placed + 6
    asked = [(placed + 1, placed + 3), (placed + 4, placed + 5), (placed + 6, placed + 7), (later, later + 1)]
    assert erase(harness, erasures_of(harness), asked) == 1
    left = [placed, placed + 3, placed + 5, later + 1]
    assert [*harness.log.routing.dead] == left
    (record,) = harness.read_queue(ERASURE_TOPIC, 0)
    assert [*unpack_erasure(record.body)] == [placed + 1, placed + 2, placed + 4, later], "no more than is needed"
    harness.reopen()
    assert [*harness.log.routing.dead] == left
    again = erasures_of(harness)
    harness.run(again.finish())
    assert again.done == 1
    harness.close()


def test_who_was_away_while_something_was_erased_shows_no_messages_before_it_is(tmp_path: Path) -> None:
    harness, secret = begin(tmp_path, FaultyFiles())
    harness.roll("a")
    erasures = erasures_of(harness)
    erasures.check_reads()
    erasures.told = lambda: 1
    with pytest.raises(Busy):
        erasures.check_reads()
    harness.append(ERASURE_TOPIC, 0, pack_erasure([(secret, secret + 1)]))
    harness.run(erasures.finish())
    erasures.check_reads()
    harness.close()


def test_what_may_stand_in_a_kept_file_is_not_said_to_be_erased_and_keeps_no_other_erasure_waiting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness, path = make(tmp_path)
    before, files = kept(path), UnreadableFiles(path.name)
    harness.files = files
    harness.open()
    harness.put_topic(ERASURE_TOPIC, 1)
    erasures = erasures_of(harness)
    secret, other = before[1][0], 2
    with pytest.raises(StoreUnwritable, match=f"may still stand in .*{path.name}"):
        erase(harness, erasures, [(secret, secret + 1)])
    assert secret not in {message.position for message in harness.read_log()}
    assert erase(harness, erasures, [(other, other + 1)]) == 1
    assert caplog.text.count("an erasure is not done") == 1
    erasures.told = lambda: 2
    for _ in range(2):
        erasures.check_reads()
        assert (erasures.done, erasures.is_behind) == (0, True)
        assert [path.name in line for line in erasures.degraded()] == [True]
        harness.reopen()
        erasures = erasures_of(harness)  # a start tries all of it again
        harness.run(erasures.finish())
    monkeypatch.setattr(upkeep, "RETRY_KEPT_S", 0)
    harness.run(erasures.go_on())
    assert erasures.done == 0
    files.unreadable = ()
    monkeypatch.setattr(erasures, "_again_s", 0)
    harness.run(erasures.go_on())
    assert (erasures.done, erasures.degraded()) == (2, [])
    assert kept(path) == [each for each in before if each[0] != secret]
    assert erasures_of(harness).done == 2
    harness.close()


def test_ranges_are_said_in_as_few_as_can_be() -> None:
    ranges = [(5, 6), (4, 5), (20, 30), (6, 9), (9, 9), (8, 7), (25, 26), (98, 200), (0, 2)]
    merged = merge_ranges(ranges, 1, 100)
    assert merged == [(1, 2), (4, 9), (20, 30), (98, 100)]
    assert unpack_erasure(pack_erasure(merged)) == to_bitmap(ranges) & to_bitmap([(1, 100)])
