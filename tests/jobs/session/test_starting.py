"""How a client knows that jobs are starting for a lake, before they announce their server."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from lakemq.jobs.session.discovery import Server, announce
from lakemq.jobs.session.starting import FILE, are_starting, awaited_by_starting, find_server_once_up, marked

HOLD = """
import sys, time
from pathlib import Path
from lakemq.jobs.session.starting import marked
with marked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_jobs_are_starting_from_their_first_moment_to_their_last(tmp_path: Path) -> None:
    lake = tmp_path / "new"
    assert not are_starting(lake)
    with marked(lake):
        assert are_starting(lake)
        with marked(lake):  # others wait for these
            assert are_starting(lake)
        assert are_starting(lake)
    assert not are_starting(lake)


def test_killed_jobs_are_not_starting(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        assert are_starting(tmp_path)
        process.kill()
    assert not are_starting(tmp_path)


def test_jobs_of_another_machine_that_has_the_folder_too_are_not_waited_for(tmp_path: Path) -> None:
    with marked(tmp_path):
        (tmp_path / FILE).write_text("of another boot")
        assert not are_starting(tmp_path)


def test_jobs_whose_server_is_announced_and_not_reached_are_not_waited_for(tmp_path: Path) -> None:
    """As from another container."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    announce(tmp_path, Server(f"sc://127.0.0.1:{port}", 1))  # of jobs before
    said: list[str] = []
    with marked(tmp_path):
        assert are_starting(tmp_path)
        announce(tmp_path, Server(f"sc://127.0.0.1:{port}", os.getpid()))
        assert find_server_once_up(tmp_path, said.append) is None
    assert said == []


@pytest.mark.parametrize("made", ["mkdir", "mkfifo", "link"])
def test_what_is_no_file_of_ours_is_passed_over(tmp_path: Path, made: str) -> None:
    file = tmp_path / FILE
    {"mkdir": file.mkdir, "mkfifo": lambda: os.mkfifo(file), "link": lambda: file.symlink_to("/dev/zero")}[made]()
    if made == "link":
        with marked(tmp_path):
            assert not are_starting(tmp_path)
    assert not are_starting(tmp_path)


def test_a_folder_that_cannot_be_made_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with marked(tmp_path / "file" / "lake"):
        pass


def test_without_jobs_nobody_waits(tmp_path: Path) -> None:
    said: list[str] = []
    assert find_server_once_up(tmp_path, said.append) is None
    assert said == []


def test_the_server_of_jobs_that_start_is_waited_for(tmp_path: Path) -> None:
    said: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listener, marked(tmp_path):
        server = Server(f"sc://127.0.0.1:{listener.getsockname()[1]}", os.getpid())

        def say(line: str) -> None:
            said.append(line)
            announce(tmp_path, server)

        assert find_server_once_up(tmp_path, say) == server
        assert find_server_once_up(tmp_path, said.append) == server
    assert said == [f"the jobs of the lake in {tmp_path} are still starting; waiting for them, 120 s at most"]


def test_jobs_that_do_not_come_up_are_given_up(tmp_path: Path) -> None:
    said: list[str] = []
    with marked(tmp_path):
        assert find_server_once_up(tmp_path, said.append, 0.0) is None
    assert said[1:] == ["the jobs have not come up within 0 s; see their log, or run lakemq doctor"]


def test_what_jobs_say_steers_no_terminal_and_is_bounded(tmp_path: Path) -> None:
    with marked(tmp_path) as mark:
        assert awaited_by_starting(tmp_path) == ""
        mark.waits_for_broker("a\x1b[31m\nbroker" + "x" * 10_000)
        said = awaited_by_starting(tmp_path)
        assert said is not None
        assert said.startswith("a\\x1b[31m\\nbrokerx")
        assert len(said) < 400
        mark.waits_for_broker("")
        assert awaited_by_starting(tmp_path) == ""
    mark.waits_for_broker("too late")
    assert "late" not in (tmp_path / FILE).read_text()


def test_jobs_that_end_meanwhile_are_not_waited_for(tmp_path: Path) -> None:
    said: list[str] = []
    held = marked(tmp_path)
    held.__enter__()

    def say(line: str) -> None:
        said.append(line)
        held.__exit__(None, None, None)

    assert find_server_once_up(tmp_path, say) is None
    assert len(said) == 1
