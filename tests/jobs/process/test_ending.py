"""Jobs that hang as they are to end: their Java is ended, and the process says what was wrong first."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest
from pyspark.sql import SparkSession

from lakemq.jobs.errors import LakeTaken
from lakemq.jobs.process.ending import Ending, java_of
from lakemq.jobs.process.run import _Job, _run_to_end  # pyright: ignore[reportPrivateUsage]
from lakemq.model.errors import LakemqError


class Scene:
    """What jobs do whose Java doesn't answer: they wait for it, and fail when it is gone."""

    def __init__(self) -> None:
        self.java = subprocess.Popen(["sleep", "infinity"])
        self.stop = Event()

    def hang(self) -> None:
        self.java.wait()
        raise ConnectionError("Java is gone")

    def run(self, *works: Callable[[], None]) -> None:
        ending = Ending(self.java, self.stop, within_s=0.05)
        _run_to_end([_Job("job", work, self.stop) for work in works], self.stop, ending)


def test_jobs_that_hang_as_they_are_to_end_are_ended() -> None:
    scene = Scene()
    scene.stop.set()
    with pytest.raises(LakemqError, match="had to be ended"):
        scene.run(scene.hang)
    assert scene.java.returncode == -9


def test_what_failed_first_is_what_is_said_though_others_hang() -> None:
    """By its exit code it is known whether to start the jobs again."""
    scene = Scene()

    def be_replaced() -> None:
        raise LakeTaken("another has it")

    with pytest.raises(LakeTaken):
        scene.run(scene.hang, be_replaced)


def test_jobs_that_end_by_themselves_are_let() -> None:
    scene = Scene()
    ending = Ending(scene.java, scene.stop, within_s=60.0)
    _run_to_end([_Job("job", lambda: None, scene.stop)], scene.stop, ending)
    ending.over()
    assert ending.forced_at_s is None
    assert scene.java.poll() is None
    scene.java.kill()
    scene.java.wait()


def test_the_process_that_is_ended_is_java(spark: SparkSession) -> None:
    program = Path(f"/proc/{java_of(spark).pid}/exe").resolve().name
    assert program == "java"
