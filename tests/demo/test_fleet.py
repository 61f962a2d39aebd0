"""`lakemq fleet` without Spark: real processes, a real etcd, and a leader that is killed under load."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lakemq.client.http import HttpClient
from tests.demo.test_demo import run
from tests.etcd_server import find_etcd

COMMAND = "lakemq fleet --limit 400 --no-jobs --data-dir kept --keep"
STOP_S_MAX = 120
HELD = 6
"""So many checks hold where there is no lake."""


@pytest.mark.skipif(find_etcd() is None, reason="no etcd here; make setup unpacks Debian's")
@pytest.mark.timeout(600)
def test_a_leader_is_killed_and_nothing_is_lost_and_the_fleet_stays_when_asked_to(tmp_path: Path) -> None:
    # Ten processes start on two cores: no replica is to lead, or to be let go, because one stood still.
    done = run(tmp_path, *COMMAND.split()[1:], LAKEMQ_FLEET__LEASE_MS="8000", LAKEMQ_REPLICATION__SILENT_MS="8000")
    pids = [int(pid) for pid in (re.findall(r"stop it with: kill ([\d ]+)", done.stdout) or [""])[0].split()]
    try:
        assert done.returncode == 0, (done.stdout, done.stderr)
        checks = [line for line in done.stdout.splitlines() if "│ ok" in line or "│ WRONG" in line]
        assert len(checks) == HELD
        assert all("│ ok" in line for line in checks), checks
        assert re.search(r"replica 1 leads broker-a in epoch [2-9]", done.stdout)
        assert "it follows replica 1, and is in sync" in done.stdout
        assert "made topic flights at broker-c" in done.stderr
        urls = re.findall(r"broker-\w, replica \d: (\S+), process", done.stdout)
        assert len(urls) == 6
        for url in urls:
            with HttpClient(url) as client:
                assert client.is_ready()
        assert len(pids) == 10
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
    end_s = time.monotonic() + STOP_S_MAX
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < end_s
        time.sleep(0.2)


@pytest.mark.skipif(find_etcd() is None, reason="no etcd here; make setup unpacks Debian's")
def test_a_fleet_that_is_ended_as_it_starts_leaves_nothing_running(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    command = [sys.executable, "-m", "lakemq", "fleet", "--no-jobs", "--data-dir", str(folder), "--keep"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as started:
        assert started.stdout is not None
        assert any("etcd on http" in line for line in iter(started.stdout.readline, ""))
        assert processes_of(folder)
        started.terminate()
        assert started.wait(STOP_S_MAX) == 1
    assert processes_of(folder) == []


def processes_of(folder: Path) -> list[Path]:
    """Those whose arguments name something in the folder."""
    found: list[Path] = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if f"{folder}/".encode() in each.read_bytes():
                found.append(each)
    return found


def test_a_fleet_that_can_not_begin_says_why_and_leaves_nothing_running(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    done = run(tmp_path, "fleet", "--data-dir", "kept")
    assert done.returncode != 0
    assert "is not empty: the fleet begins with nothing" in done.stderr
