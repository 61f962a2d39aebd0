"""A run of maintenance is ended when somebody asks for that."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakemq.jobs.maintenance import requests
from lakemq.jobs.maintenance import runner as module
from lakemq.jobs.maintenance.command import cancel_job
from lakemq.jobs.maintenance.runner import Runner
from lakemq.jobs.maintenance.runs import CANCELLED, DONE, Run, read_runs
from lakemq.jobs.maintenance.scheduler import MaintenanceScheduler
from lakemq.jobs.maintenance.work import Outcome, Work
from lakemq.model.errors import LakemqError
from tests.cli.shell import Run as Commands
from tests.jobs.maintenance.scene import Scene

WAIT_S = 300
HOLDS = """
import fcntl, sys
with open(sys.argv[1], "r+b") as lock:
    fcntl.lockf(lock, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.read()
"""


def until(condition: Callable[[], Any]) -> Any:
    end = time.monotonic() + WAIT_S
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found


def between_steps(work: Work) -> Outcome:
    """Never ends by itself."""
    while True:
        work.check()
        time.sleep(0.01)


def within_one(work: Work) -> Outcome:
    """Neither does this, in Spark."""
    found = work.session.range(10**15).selectExpr("sum(id % 7)").collect()
    return Outcome({"rows": len(found)})


def fails(work: Work) -> Outcome:
    raise LakemqError("it fails")


@contextmanager
def stands_in(monkeypatch: pytest.MonkeyPatch, work: Callable[[Work], Outcome]) -> Generator[threading.Event]:
    """`optimize` is that meanwhile; set once it has begun."""
    begun = threading.Event()

    def run(given: Work) -> Outcome:
        begun.set()
        return work(given)

    with monkeypatch.context() as patch:
        patch.setitem(module.JOBS, "optimize", replace(module.JOBS["optimize"], run=run))
        yield begun


@contextmanager
def held(lake: Path) -> Generator[None]:
    """Another process has the lake's lock, as jobs have it."""
    (lake / "_lock").touch()
    command = [sys.executable, "-c", HOLDS, str(lake / "_lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        try:
            yield
        finally:
            holder.communicate()


@contextmanager
def scheduled(scene: Scene, jobs: Runner) -> Generator[MaintenanceScheduler]:
    scheduler = MaintenanceScheduler(jobs, scene.settings, {})
    scheduler.start()
    try:
        yield scheduler
    finally:
        scheduler.stop()


@pytest.mark.parametrize("work", [between_steps, within_one])
def test_a_run_ends_between_its_steps_and_within_one_and_the_next_one_goes(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, work: Callable[[Work], Outcome]
) -> None:
    jobs = scene.runner()
    with stands_in(monkeypatch, work) as begun, ThreadPoolExecutor(1) as pool:
        done = pool.submit(jobs.run, "optimize", "test")
        assert begun.wait(WAIT_S)
        assert jobs.cancel("vacuum") is None
        assert not done.done()

        def ended() -> Run | None:
            jobs.cancel("optimize")
            return done.result() if done.done() else None

        run: Run = until(ended)
    assert (run.result, run.error, run.attempts) == (CANCELLED, "it was cancelled", 1)
    assert jobs.cancel() is None
    assert read_runs(scene.lake, "optimize", 1)[0].result == CANCELLED
    assert jobs.run("optimize", "test").result == DONE
    scene.check()


def test_what_is_cancelled_is_not_tried_again(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = scene.runner(retry_pause_ms=3_600_000)
    with stands_in(monkeypatch, fails) as begun, ThreadPoolExecutor(1) as pool:
        done = pool.submit(jobs.run, "optimize", "test")
        assert begun.wait(WAIT_S)
        assert jobs.cancel() is not None
        run = done.result(WAIT_S)
    assert (run.result, run.attempts) == (CANCELLED, 1)


def test_a_request_ends_what_is_under_way_and_what_waits(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    with stands_in(monkeypatch, between_steps) as begun, held(scene.lake), scheduled(scene, scene.runner()):
        first = requests.submit(scene.lake, "optimize", {})
        assert begun.wait(WAIT_S)
        second = requests.submit(scene.lake, "optimize", {})
        other = requests.submit(scene.lake, "stats", {})
        assert cancel_job(scene.settings, "vacuum") == (None, 0)
        assert requests.take_result(scene.lake, first) is None
        assert cancel_job(scene.settings, "optimize") == ("optimize", 1)
        answers = [until(lambda each=each: requests.take_result(scene.lake, each)) for each in (first, second, other)]
    assert answers[0]["result"] == CANCELLED
    assert answers[1] == {"error": "optimize was cancelled before it began"}
    assert answers[2]["result"] == DONE
    assert requests.waiting(scene.lake) == []


def test_a_request_that_is_answered_between_two_looks_is_done_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: a busy scheduler had read of it before it was answered, and ran its job again: once more, and for
    good, where it was one that had been cancelled."""
    before = {each.run_id for each in read_runs(scene.lake, "stats", 100)}
    first = requests.submit(scene.lake, "stats", {})
    seen = requests.waiting(scene.lake)
    with held(scene.lake), scheduled(scene, scene.runner()):
        assert until(lambda: requests.take_result(scene.lake, first))["result"] == DONE
        looked = threading.Event()

        def looks(lake: Path) -> list[requests.Request]:
            if looked.is_set():
                return waiting(lake)
            looked.set()
            return seen

        waiting = requests.waiting
        monkeypatch.setattr(requests, "waiting", looks)
        assert looked.wait(WAIT_S)
        last = requests.submit(scene.lake, "stats", {})  # one is done after the other
        assert until(lambda: requests.take_result(scene.lake, last))["result"] == DONE
    assert len({each.run_id for each in read_runs(scene.lake, "stats", 100)} - before) == 2
    assert requests.take_result(scene.lake, first) is None


def test_a_run_by_the_schedule_is_ended_by_the_command(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lakemq, jobs = Commands(tmp_path, capsys, monkeypatch), scene.runner()
    cancel = ("maintenance", "cancel", "--lake", str(scene.lake))
    assert "nothing is under way" in lakemq(*cancel).stderr
    with held(scene.lake), scheduled(scene, jobs), ThreadPoolExecutor(1) as pool:
        assert "nothing of that kind" in lakemq(*cancel).stderr
        with stands_in(monkeypatch, between_steps) as begun:
            done = pool.submit(jobs.run, "optimize", "schedule")
            assert begun.wait(WAIT_S)
            assert lakemq(*cancel).stdout == "optimize: cancelled\n"
            assert done.result().result == CANCELLED
        assert "no job" in lakemq(*cancel, "nothing").stderr


def test_what_is_no_request_ends_nothing(scene: Scene) -> None:
    folder = scene.lake / requests.FOLDER / "requests"
    folder.mkdir(parents=True, exist_ok=True)
    said = '{"request_id": "x", "job": "cancel", "parameters": [1], "asked_at": "now"}'
    (folder / "x.json").write_text(said)
    assert requests.waiting(scene.lake) == []
    assert not (folder / "x.json").exists()
