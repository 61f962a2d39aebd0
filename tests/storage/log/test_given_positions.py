"""What others are known to have given is passed over once, by who leads next, and is no matter for the starts after."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import cast

import pytest

from lakemq.settings import Storage
from lakemq.storage.disk.clock import Clock
from lakemq.storage.disk.files import Files
from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.log.positions import (
    BLOCK_MIN,
    GIVEN,
    RESERVED,
    UNKNOWN_BLOCK,
    WRITTEN,
    note_confirming,
    note_given,
    read_given,
    read_reserved,
)
from tests.storage.harness import LogHarness
from tests.storage.stopping_files import Stopped, StoppingFiles


def elected(epoch: int) -> type[CommitLog]:
    """The log of who is elected to lead in that epoch."""

    class Elected(CommitLog):
        def __init__(self, settings: Storage, files: Files, clock: Clock) -> None:
            super().__init__(settings, files, clock)
            self.begins_epoch = epoch

    return Elected


def follow(harness: LogHarness, bound: int, waits: bool) -> int:
    """Leave the log as a follower does whose leader was heard to have given all below `bound`, after its end; `waits`:
    whether that one tells of what is confirmed only. Where it ends."""
    harness.append("a", 0, b"kept")
    end, log = harness.log.next_position, harness.log.identity.now
    harness.close()
    for name in (RESERVED, WRITTEN):
        (harness.directory / name).unlink()
    note_given(harness.files, harness.directory, log, end + bound)
    if waits:
        note_confirming(harness.files, harness.directory, log)
    return end


def lead(harness: LogHarness, epoch: int) -> int:
    """Open the log to lead in that epoch. Where it goes on."""
    harness.kind = elected(epoch)
    harness.open()
    assert harness.log.identity.now.epoch == epoch
    return harness.log.next_position


def test_a_leader_that_went_on_where_its_log_ends_does_so_after_a_restart_too(harness: LogHarness) -> None:
    end = follow(harness, BLOCK_MIN, waits=True)
    assert lead(harness, 2) == end + 1
    assert not (harness.directory / GIVEN).exists()
    harness.crash()
    assert lead(harness, 3) == end + 2
    assert harness.append("a", 0, b"next").placed[0].queue_offset == 1


def test_what_others_have_given_is_passed_over_once(harness: LogHarness) -> None:
    end = follow(harness, 1_000, waits=False)
    assert lead(harness, 2) == end + UNKNOWN_BLOCK
    assert not (harness.directory / GIVEN).exists()
    harness.crash()
    assert lead(harness, 3) == end + UNKNOWN_BLOCK + 1


def test_what_lies_beyond_one_hole_is_passed_over_by_the_next_start(harness: LogHarness) -> None:
    end = follow(harness, 2 * UNKNOWN_BLOCK, waits=False)
    assert lead(harness, 2) == end + UNKNOWN_BLOCK
    assert (harness.directory / GIVEN).exists()
    harness.crash()
    lead(harness, 3)
    harness.crash()
    assert lead(harness, 4) > end + 2 * UNKNOWN_BLOCK


def test_what_was_given_in_a_later_epoch_than_this_one_stays_said(harness: LogHarness) -> None:
    follow(harness, 10, waits=True)
    log = harness.log.identity.now
    note_given(harness.files, harness.directory, log._replace(epoch=7), 0)
    lead(harness, 2)
    assert read_given(harness.files, harness.directory, log.log_id) is not None


def test_a_crash_leaves_what_was_given_or_what_may_be_given_from_now_on(harness: LogHarness) -> None:
    end = follow(harness, BLOCK_MIN, waits=True)
    log_id = harness.log.identity.now.log_id
    folder, before = harness.directory, harness.directory.with_name("before")
    shutil.copytree(folder, before)
    found = set[tuple[bool, bool]]()
    step, stopped = 0, True
    while stopped:
        shutil.rmtree(folder)
        shutil.copytree(before, folder)
        files = harness.files = StoppingFiles()
        files.steps_left = step
        try:
            lead(harness, 2)
        except Stopped:
            files.steps_left = -1
        else:
            stopped = False
            files.steps_left = -1
            harness.crash()
        reserved = read_reserved(files, folder, log_id)
        given = read_given(files, folder, log_id)
        found.add((reserved is not None, given is not None))
        assert given is not None or (reserved is not None and reserved.bound > end)
        assert lead(harness, 3) in (end + 1, end + 2, end + 1 + BLOCK_MIN, end + 1 + UNKNOWN_BLOCK)
        harness.crash()
        step += 1
    assert found == {(False, True), (True, True), (True, False)}


def test_what_can_not_be_forgotten_yet_is_with_the_next_block(
    harness: LogHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    end = follow(harness, BLOCK_MIN, waits=True)
    remove = harness.files.remove

    def fails(path: Path) -> None:
        if path.name == GIVEN:
            raise OSError("no")
        remove(path)

    monkeypatch.setattr(harness.files, "remove", fails)
    assert lead(harness, 2) == end + 1
    assert "can't delete the record of others' positions" in caplog.text
    assert (harness.directory / GIVEN).exists()
    monkeypatch.undo()
    monkeypatch.setattr(harness.log._positions, "_block", BLOCK_MIN * 4)  # pyright: ignore[reportPrivateUsage]
    harness.append("a", 0, b"next")
    harness.wait_until_reserved()
    assert not (harness.directory / GIVEN).exists()


def test_a_log_that_is_opened_in_a_thread_leaves_its_loop_alone_until_it_is_used_there(harness: LogHarness) -> None:
    harness.append("a", 0, b"kept")
    harness.crash()
    harness.files.fail_replace = True
    touched = list[str]()

    async def scene() -> None:
        loop = asyncio.get_running_loop()

        class Watched:
            """A loop that says what it is asked for."""

            def __getattr__(self, name: str) -> object:
                touched.append(name)
                return getattr(loop, name)

        log = CommitLog(harness.settings, harness.files, harness.clock)
        await asyncio.to_thread(log.open, loop=cast("asyncio.AbstractEventLoop", Watched()))
        assert touched == []
        log.go_on_reserving()
        while (refused := log.refusal()) is None:  # noqa: ASYNC110  nobody tells
            await asyncio.sleep(0.001)
        assert "no positions can be reserved" in refused.detail
        harness.files.fail_replace = False
        while log.unwritable is not None:
            log.retain()
            await asyncio.sleep(0.001)
        log.release()

    asyncio.run(scene())
    assert "run_in_executor" in touched
