"""Jobs that hang as they are to end: their Java is ended, then the process, and what was wrong first is said."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest
from pyspark.sql import SparkSession

from lakemq.cli.supervisor import REPLACED
from lakemq.jobs.errors import LakeTaken
from lakemq.jobs.process.ending import Ending, java_of
from lakemq.jobs.process.run import _Job, _run_to_end  # pyright: ignore[reportPrivateUsage]
from lakemq.model.errors import LakemqError

WAIT_S_MAX = 120.0
NEVER_S = 1_000_000.0


class Scene:
    """What jobs do whose Java doesn't answer: they wait for it, and fail when it is gone."""

    def __init__(self) -> None:
        self.java = subprocess.Popen(["sleep", "infinity"])
        self.stop = Event()

    def hang(self) -> None:
        self.java.wait()
        raise ConnectionError("Java is gone")

    def run(self, *works: Callable[[], None]) -> None:
        ending = Ending(self.java, self.stop, within_s=0.05, exits_within_s=NEVER_S)
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
    ending = Ending(scene.java, scene.stop, within_s=NEVER_S)
    _run_to_end([_Job("job", lambda: None, scene.stop)], scene.stop, ending)
    assert ending.forced_at_s is None
    assert scene.java.poll() is None
    scene.java.kill()
    scene.java.wait()


def test_the_process_that_is_ended_is_java(spark: SparkSession) -> None:
    program = Path(f"/proc/{java_of(spark).pid}/exe").resolve().name
    assert program == "java"


# What hangs outside Java -------------------------------------------------------------------

PROCESS = """
import subprocess
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from lakemq.jobs.errors import LakeTaken
from lakemq.jobs.process.ending import Ending
from lakemq.jobs.process.run import _Job, _run_to_end

def be_replaced():
    raise LakeTaken("another has it")

def hang():
    Event().wait()

stop = Event()
ending = Ending(subprocess.Popen(["sleep", "infinity"]), stop, within_s=0.05, exits_within_s=2.0)
pool = ThreadPoolExecutor(1)
{before}
_run_to_end([_Job("job", work, stop) for work in ({works},)], stop, ending)
"""


@pytest.mark.parametrize(
    ("before", "works", "code"),
    [
        ("stop.set()", "hang", 1),
        ("", "hang, be_replaced", REPLACED),
        ("pool.submit(hang)", "lambda: None", 1),  # the interpreter waits for such a thread after the last line
    ],
    ids=["a job", "a job, beside one that failed", "a thread of a pool"],
)
def test_a_process_in_which_something_hangs_outside_java_ends_all_the_same(before: str, works: str, code: int) -> None:
    program = PROCESS.format(before=before, works=works)
    done = subprocess.run([sys.executable, "-c", program], timeout=WAIT_S_MAX, check=False, capture_output=True)
    assert done.returncode == code, done.stderr
    assert b"hangs outside Java too" in done.stderr
