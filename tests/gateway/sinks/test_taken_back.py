"""A commit that nobody may ever have confirmed, at a broker that lacks its parts, as one that followed may: it is taken
back, so whoever commits the batch again is told to stage it again, and nothing is lost or there twice."""

from __future__ import annotations

import asyncio
import copy
import json
import shutil
from collections.abc import Coroutine
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from lakemq.gateway.fleet.confirmed_mark import ConfirmedMark, Mark
from lakemq.gateway.sinks.staging import Part
from lakemq.model.errors import LakemqError, NotConfirmed, PartNotFound
from lakemq.storage.log.recovery import recover
from lakemq.storage.state.log_state import LogState
from lakemq.storage.state.sinks import Sink, SinkState
from lakemq.testing import FaultyFiles
from tests.gateway.http_client import write_arrow
from tests.gateway.sinks.test_sink_crashes import BODIES, CUTS, OTHER_CUTS, SINK, Crashing, DyingFiles, dies_with_left


class Ended(NamedTuple):
    """A broker that died with parts left to be stored, and the end of its log then."""

    harness: Crashing
    folder: Path
    log_id: str
    end: int

    def follows(self, confirmed: int) -> Crashing:
        """It has another one's log and none of the parts, and has heard that so much is confirmed."""
        for staged in self.harness.files_of_parts():
            staged.unlink()
        self.marks(confirmed)
        return self.harness

    def marks(self, confirmed: int) -> None:
        """It was a follower, and has heard that so much is confirmed."""
        ConfirmedMark(FaultyFiles(), self.folder).leave(self.log_id, Mark(confirmed, True))


def ended(folder: Path, *, batch: int, left: int) -> Ended:
    """So many parts of that batch are left."""
    harness = Crashing(folder)
    dies_with_left(harness, batch, left)
    log = harness.broker.log
    found = Ended(harness, folder, log.identity.log_id, log.next_position)
    harness.crash()
    harness.files = FaultyFiles()
    return found


@pytest.mark.parametrize("batch", [0, 1])
def test_what_nobody_confirmed_is_to_be_committed_again(tmp_path: Path, batch: int) -> None:
    harness = ended(tmp_path, batch=batch, left=2).follows(confirmed=0)
    harness.open(0)
    harness.run(harness.stored())
    sink = harness.broker.sinks.state.by_name.get(SINK)
    if batch:
        assert sink is not None
        assert (sink.batch, sink.progress, sink.messages, sink.dropped) == (0, "batch 0", 4, 0)
    else:
        assert sink is None
    with pytest.raises(PartNotFound):
        harness.run(harness.broker.sinks.commit(SINK, batch, ["1-0"], "", once=False))
    harness.run(harness.write(OTHER_CUTS))
    assert sorted(harness.bodies()) == BODIES
    sinks = harness.broker.log.state.sinks
    assert (sinks.by_name[SINK].messages, sinks.by_name[SINK].dropped, sinks.before) == (7, 0, {})
    dumped = sinks.dump()
    harness.restart_without_snapshots(0)
    assert harness.broker.log.state.sinks.dump() == dumped
    harness.close()


class StagingAtItsStart(Crashing):
    """A part of the batch comes before anything was done about what is left."""

    staged: Part | None = None

    async def _start(self) -> None:
        self.broker.open()
        content = write_arrow({"body": pa.array([b"1"])})
        self.staged = await self.broker.sinks.stage(SINK, 0, "again", "t", None, content)
        await self.broker.start()
        await self.broker.router.overdue.close()


class LookingAtItsStart(Crashing):
    """The sink is looked at as the broker starts, before the first step of what that begins."""

    shown: Sink | None = None

    async def _start(self) -> None:
        self.broker.open()
        self.shown = copy.deepcopy(self.broker.sinks.shown(SINK))  # it moves on as its parts are stored
        await self.broker.start()
        await self.broker.router.overdue.close()


@pytest.mark.parametrize("batch", [0, 1])
def test_a_commit_whose_parts_a_broker_by_itself_has_lost_is_not_shown(tmp_path: Path, batch: int) -> None:
    """Who looked before it was taken back went on after it, and the batch was lost."""
    found = ended(tmp_path, batch=batch, left=2)
    found.harness.files_of_parts()[0].unlink()
    harness = LookingAtItsStart(found.folder)
    harness.open(0)
    assert (harness.shown and harness.shown.batch) == (batch - 1 if batch else None)
    harness.run(harness.stored())
    stands = harness.broker.sinks.shown(SINK)
    assert (stands and stands.progress) == (harness.shown and harness.shown.progress)
    harness.close()


@pytest.mark.parametrize("confirmed", [None, 0], ids=["by itself", "that followed"])
def test_a_commit_whose_parts_a_broker_has_is_shown(tmp_path: Path, confirmed: int | None) -> None:
    """A follower's mark is behind what is confirmed: after a failover, who asked where to go on was told that there
    was no such sink, until the first part was stored."""
    found = ended(tmp_path, batch=0, left=2)
    if confirmed is not None:
        found.marks(confirmed)
    harness = LookingAtItsStart(found.folder)
    harness.open(0)
    assert harness.shown is not None
    assert len(harness.shown.left) == 2
    harness.close()


def test_a_part_of_what_is_taken_back_is_staged_and_not_said_to_be_committed(tmp_path: Path) -> None:
    """Else the commit again finds no part, though who stages was told that it needs none."""
    found = ended(tmp_path, batch=0, left=2)
    found.follows(confirmed=0)
    harness = StagingAtItsStart(found.folder)
    harness.open(0)
    assert harness.staged is not None
    harness.run(harness.broker.sinks.commit(SINK, 0, ["again"], "", once=False))
    assert harness.bodies() == ["1"]
    harness.close()


def test_a_batch_whose_parts_a_broker_by_itself_has_lost_is_to_be_committed_again(tmp_path: Path) -> None:
    """It was dropped, and the same commit again said that it had been stored."""
    harness = ended(tmp_path, batch=0, left=2).harness
    harness.files_of_parts()[0].unlink()
    harness.open(0)
    harness.run(harness.stored())
    with pytest.raises(PartNotFound):
        harness.run(harness.broker.sinks.commit(SINK, 0, ["0-0", "0-1"], "", once=False))
    harness.run(harness.write(CUTS))
    assert sorted(harness.bodies()) == BODIES
    assert harness.broker.sinks.state.by_name[SINK].dropped == 0
    harness.close()


class DyingFromItsStart(Crashing):
    """The disk dies at that operation after the log is open."""

    step: int | None = None

    async def _start(self) -> None:
        self.broker.open()
        if isinstance(self.files, DyingFiles):
            self.files.left = self.step
        await self.broker.start()
        await self.broker.router.overdue.close()


def test_it_is_taken_back_whichever_operation_the_disk_dies_at(tmp_path: Path) -> None:
    found = ended(tmp_path / "ended", batch=1, left=2)
    found.follows(confirmed=0)
    for step in count(1):
        harness = DyingFromItsStart(shutil.copytree(found.folder, tmp_path / str(step)))
        harness.step, dying = step, DyingFiles()
        harness.files = dying
        with suppress(LakemqError, OSError):
            harness.open(0)
            harness.run(harness.write(OTHER_CUTS))
        harness.crash()
        harness.files = FaultyFiles()
        harness.open(0)
        harness.run(harness.write(OTHER_CUTS))
        assert sorted(harness.bodies()) == BODIES, step
        harness.close()
        assert dying.left is not None
        if dying.left > 0:
            assert step > 5
            return


@pytest.mark.parametrize("kept", [0, 1])
def test_what_was_confirmed_and_what_is_stored_in_part_is_never_taken_back(tmp_path: Path, kept: int) -> None:
    """The parts were on this disk, which has lost them; and who has some of a batch's messages can't have it again."""
    found = ended(tmp_path, batch=0, left=2 - kept)
    harness = found.follows(confirmed=0 if kept else found.end)
    harness.open(0)
    harness.run(harness.stored())
    sink = harness.broker.sinks.state.by_name[SINK]
    assert (sink.batch, sink.messages, sink.left) == (0, 3 * kept, [])
    assert len(harness.bodies()) == 3 * kept
    harness.close()


def test_a_state_says_what_a_commit_has_replaced_and_one_from_before_does_not(tmp_path: Path) -> None:
    found = ended(tmp_path, batch=1, left=2)
    recovered = recover(FaultyFiles(), found.folder / "commitlog", 0)
    for segment in recovered.segments:
        segment.close()
    before = recovered.state.sinks.before[SINK]
    assert before.end <= found.end
    assert before.sink is not None
    state = LogState()
    state.restore(json.loads(json.dumps(recovered.state.dump())))
    assert state.sinks == recovered.state.sinks
    dumped = state.dump()
    del dumped["sinks_before"]
    state.restore(dumped)
    assert state.sinks == SinkState(recovered.state.sinks.by_name)


def test_nothing_of_a_batch_is_in_the_log_before_its_commit_is_confirmed(tmp_path: Path) -> None:
    """Else whoever leads next might have some of its messages, and not the other parts."""

    async def unconfirmed(work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.ensure_future(work)
        while not task.done():
            log.confirmed.refuse(NotConfirmed("it may be stored"))
            await asyncio.sleep(0)
        await task

    harness = Crashing(tmp_path)
    harness.open(0)
    log, sinks = harness.broker.log, harness.broker.sinks
    log.confirmed.limit(log.confirmed_position)  # somebody in sync has no more
    with pytest.raises(NotConfirmed):
        harness.run(unconfirmed(harness.write(CUTS[:1])))
    end = log.next_position
    for _ in range(3):
        with pytest.raises(NotConfirmed):
            harness.run(unconfirmed(sinks.commit(SINK, 0, ["0-0", "0-1"], "", once=False)))
    assert log.next_position == end
    assert len(log.state.sinks.by_name[SINK].left) == 2
    assert sinks.shown(SINK) is None, "whoever goes on after it would leave it out, should it be taken back"
    log.confirmed.limit(None)
    harness.run(harness.write(CUTS))
    assert sinks.shown(SINK) is sinks.state.by_name[SINK]
    assert sorted(harness.bodies()) == BODIES
    harness.close()
