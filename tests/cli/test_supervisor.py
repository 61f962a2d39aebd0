"""The supervisor: what it starts again, and that its children never outlive it."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lakemq.cli.supervisor import (
    BACKOFF_S_MAX,
    REFUSED,
    REPLACED,
    STEADY_S,
    Restarted,
    backoff_s,
    describe_exit,
    start_child,
    stop_child,
)
from lakemq.jobs.errors import LakeTaken
from lakemq.model.errors import LakemqError
from tests.cli.shell import Run

WAIT_S_MAX = 120.0


def spawn(code: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code], process_group=0)


def test_back_off_doubles_and_is_bounded() -> None:
    assert [backoff_s(failures) for failures in (1, 2, 3)] == [1, 2, 4]
    assert backoff_s(10_000) == BACKOFF_S_MAX


class Child:
    """A child whose time is the test's."""

    def __init__(self, code: int = 3) -> None:
        self.code = code
        self.now_s = 0.0
        self.said: list[str] = []
        self.starts = 0
        self.fails_at = 0
        self.restarted = Restarted("jobs", self._start, self.said.append, clock_s=lambda: self.now_s)

    def _start(self) -> subprocess.Popen[bytes]:
        self.starts += 1
        if self.starts == self.fails_at:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        return spawn(f"import sys; sys.exit({self.code})")

    def look_after_end(self) -> None:
        """Look once the child, which ends at once, has ended."""
        if self.restarted.child is not None:
            self.restarted.child.wait(WAIT_S_MAX)
        self.restarted.look()


def test_a_child_that_ends_is_started_again_only_after_its_pause() -> None:
    child = Child()
    child.restarted.look()
    child.look_after_end()
    assert child.said == ["jobs ended (exit code 3); starting again in 1 s"]
    child.now_s = 0.9
    child.restarted.look()
    assert child.starts == 1
    child.now_s = 1.0
    child.restarted.look()
    assert child.starts == 2
    child.look_after_end()
    assert child.said[-1].endswith("in 2 s")


def test_a_child_that_ran_long_begins_with_the_shortest_pause_again() -> None:
    child = Child()
    child.restarted.failures = 5
    child.restarted.look()
    child.now_s = STEADY_S
    child.look_after_end()
    assert child.said[-1].endswith("in 1 s")


def test_a_child_that_can_not_be_started_now_is_tried_again() -> None:
    child = Child()
    child.fails_at = 1
    child.restarted.look()
    assert child.said == ["jobs can't be started (Resource temporarily unavailable); starting again in 1 s"]
    child.now_s = 1.0
    child.look_after_end()
    assert (child.starts, child.restarted.child is None) == (2, False)
    child.look_after_end()


def test_a_child_that_refuses_to_run_is_not_started_again() -> None:
    child = Child(REFUSED)
    child.restarted.look()
    with pytest.raises(LakemqError, match="the jobs can't run, for the reason above; all is stopped"):
        child.look_after_end()


def test_jobs_that_were_replaced_stay_down_and_the_rest_goes_on() -> None:
    """Started again they would take the lake from those that replaced them, and these from them, without an end."""
    child = Child(REPLACED)
    child.restarted.look()
    child.look_after_end()
    assert child.said == [
        "jobs ended: another driver has the lake now (exit code 79); not restarted. The rest continues"
    ]
    child.now_s = 1e9
    child.restarted.look()
    assert child.starts == 1
    child.restarted.stop(1.0)


def test_jobs_say_by_their_exit_code_that_they_were_replaced(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """That it is raised is shown with real drivers, in `tests/jobs/lake/test_driver_fence.py`."""

    def replaced(*_: object) -> None:
        raise LakeTaken("another driver has taken the lake")

    monkeypatch.setattr("lakemq.jobs.process.run.run_jobs", replaced)
    done = run("jobs")
    assert done.code == REPLACED
    assert "another driver has taken the lake" in done.stderr


def test_a_supervised_gateway_says_by_its_exit_code_that_a_setting_keeps_it_from_running() -> None:
    gateway = start_child(["gateway", "--flush", "never"])
    assert gateway.wait(WAIT_S_MAX) == REFUSED


def test_a_child_that_does_not_stop_is_killed() -> None:
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True)"
    child = subprocess.Popen([sys.executable, "-c", f"{deaf}; signal.pause()"], stdout=subprocess.PIPE, process_group=0)
    assert child.stdout is not None
    with child.stdout as heard:
        heard.readline()
        stop_child(child, grace_s=0.1)
    assert child.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (1, "ended (exit code 1)"),
        (-9, "ended (killed by SIGKILL)"),
        (-1000, "ended (killed by signal 1000)"),
        (REFUSED, "can't run, for the reason above"),
        (REPLACED, "ended: another driver has the lake now (exit code 79)"),
    ],
)
def test_an_exit_is_told_as_people_read_it(code: int, text: str) -> None:
    assert describe_exit(code) == text


def test_a_child_does_not_outlive_a_parent_that_is_killed(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    child = (
        "import os, signal, sys; from pathlib import Path;"
        "from lakemq.cli.lifeline import end_with_parent; end_with_parent(int(sys.argv[1]));"
        "Path(sys.argv[2]).write_text(str(os.getpid())); signal.pause()"
    )
    parent = spawn(
        "import os, subprocess, sys;"
        f"subprocess.run([sys.executable, '-c', {child!r}, str(os.getpid()), {str(pid_file)!r}])"
    )
    wait_for(lambda: pid_file.exists() and pid_file.read_text() != "")
    pid = int(pid_file.read_text())
    parent.kill()
    parent.wait()
    wait_for(lambda: not runs(pid))


def runs(pid: int) -> bool:
    """Whether the process still runs: one that only waits to be reaped does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def wait_for(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + WAIT_S_MAX
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.02)
