"""Where a new run of the lake query has to put the lake back, no job of maintenance commits meanwhile."""

from __future__ import annotations

import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from lakemq.jobs.maintenance import runner as module
from lakemq.jobs.maintenance.runner import Runner
from lakemq.jobs.maintenance.runs import DONE
from lakemq.jobs.maintenance.work import Outcome, Work
from lakemq.jobs.tables.tables import MESSAGES
from lakemq.model.errors import LakemqError
from lakemq.storage.disk.files import Files
from lakemq.storage.lake.progress import read_progress
from lakemq.storage.lake.proof_mark import Proved, read_marks, write_marks
from tests.jobs.maintenance.scene import Scene

WAIT_S = 300
ROUNDS = 10
ERASE = {"where": "key = 'nobody has this key'"}


def wait_until_busy(jobs: Runner) -> None:
    end = time.monotonic() + WAIT_S
    while not jobs._writes.locked():  # pyright: ignore[reportPrivateUsage]
        assert time.monotonic() < end
        time.sleep(0.01)


def distrust(lake: Path, proved: Proved) -> None:
    """As a sync that failed leaves it, of what was committed after that."""
    proved = replace(proved, distrusted=proved.version + 1)
    write_marks(lake, read_marks(lake) | {"messages": proved}, Files())


def test_a_job_that_waits_for_the_query_gives_way_to_what_the_query_waits_for(scene: Scene) -> None:
    """`erase` waits for a query that puts the lake back first, and that waits for `erase`."""
    scene.produce(5)
    scene.compact()
    proved = read_marks(scene.lake)["messages"]
    scene.produce(5)
    scene.compact()
    scene.stop()
    scene.produce(5)
    distrust(scene.lake, proved)
    jobs = scene.runner()
    versions: list[int] = []

    @contextmanager
    def alone() -> Generator[None]:
        with jobs.alone():
            versions.append(read_progress(MESSAGES.path(scene.lake)).version)
            yield
            versions.append(read_progress(MESSAGES.path(scene.lake)).version)

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(jobs.run, "erase", "test", ERASE)
        wait_until_busy(jobs)
        scene.start(alone)
        run = done.result()
    assert proved.version == versions[1] < versions[0]
    assert (run.error, run.result, run.attempts) == (None, DONE, 1)
    assert read_marks(scene.lake)["messages"].distrusted is None
    scene.check()


def test_a_job_that_gives_way_does_not_begin_again_before_it_is_its_turn(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However quick it is to fail, and though its next attempt waits for nothing."""
    begun: list[bool] = []
    is_over = False

    def until_asked(work: Work) -> Outcome:
        begun.append(is_over)
        while not is_over:
            work.check()
        return Outcome({})

    monkeypatch.setitem(module.JOBS, "optimize", replace(module.JOBS["optimize"], run=until_asked))
    with ThreadPoolExecutor(1) as pool:
        for _ in range(ROUNDS):
            jobs = scene.runner()
            begun, is_over = [], False
            done = pool.submit(jobs.run, "optimize", "test")
            wait_until_busy(jobs)
            with jobs.alone():
                is_over = True
            run = done.result()
            assert (run.error, run.attempts) == (None, 1)
            assert begun in ([False, True], [True])
    scene.check()


def test_maintenance_goes_on_beside_a_new_run_where_the_lake_is_sound(scene: Scene) -> None:
    scene.compact()
    scene.stop()
    asked: list[None] = []

    @contextmanager
    def alone() -> Generator[None]:
        asked.append(None)
        yield

    scene.start(alone)
    assert not asked
    scene.check()


def test_nothing_is_put_back_beside_a_job_that_does_not_end(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_GIVE_WAY_S_MAX", 0.0)
    jobs = scene.runner()
    with jobs._writes, pytest.raises(LakemqError, match="still running"), jobs.alone():  # pyright: ignore[reportPrivateUsage]
        raise AssertionError("nobody may be let in")
    assert jobs._driver.left_writing  # pyright: ignore[reportPrivateUsage]
    with jobs.alone():
        assert jobs._writes.locked()  # pyright: ignore[reportPrivateUsage]
    assert scene.runner().run("optimize", "test").error is None
