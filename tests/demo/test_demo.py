"""The demo itself, on its first flights: the whole way from a request to SQL, in real processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lakemq.client.http import HttpClient
from tests.quick_spark import QUICK_SPARK

STOP_S_MAX = 120
COMMAND = "lakemq demo --limit 2000 --data-dir kept --keep"
SETTINGS = QUICK_SPARK | {"LAKEMQ_LAKE__TRIGGER_MS": "500"}


@pytest.mark.timeout(900)
def test_the_first_flights_go_all_the_way_and_the_broker_stays_when_asked_to(tmp_path: Path) -> None:
    done = run(tmp_path, *COMMAND.split()[1:])
    assert done.returncode == 0, done.stderr
    checks = [line for line in done.stdout.splitlines() if line.startswith("│")]
    assert len(checks) >= 7
    assert all("│ ok" in line for line in checks[:7])
    assert sum("2,000" in line for line in checks) == 4
    assert "\nJan  " in done.stdout
    assert "found by its key through message_index" in done.stdout
    told = done.stdout.partition("Delays, transactions, dead letters")[2].splitlines()
    held = [line for line in told if line.startswith("│")][:9]
    assert all("│ ok" in line for line in held), held
    assert "SELECT event, `by`, event_time" in done.stdout
    url, pid = re.findall(r"The broker runs on (\S+) \(process (\d+)\)", done.stdout)[0]
    with HttpClient(url) as client:
        assert client.is_ready()
        os.kill(int(pid), signal.SIGTERM)
        end_s = time.monotonic() + STOP_S_MAX
        while client.is_ready() or Path(f"/proc/{pid}").exists():
            assert time.monotonic() < end_s
            time.sleep(0.2)
    assert (tmp_path / "kept" / "lake" / "messages" / "_delta_log").is_dir()


def test_a_demo_that_can_not_begin_says_why_and_cleans_up(tmp_path: Path) -> None:
    done = run(tmp_path, "demo", LAKEMQ_TRANSACTIONS__OPEN_MAX="0")
    assert done.returncode == 1
    assert "setting 'transactions.open_max' in the environment" in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.glob("lakemq-demo-*")) == []


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`lakemq` with these arguments, in a folder of its own."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("LAKEMQ_")}
    return subprocess.run(
        [sys.executable, "-m", "lakemq", *arguments],
        capture_output=True,
        text=True,
        env=inherited | SETTINGS | {"TMPDIR": str(folder)} | environment,
        cwd=folder,
        check=False,
    )
