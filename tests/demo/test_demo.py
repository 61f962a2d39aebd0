"""The demo itself, on its first flights: the whole way from a request to SQL, in real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SETTINGS = {
    "LAKEMQ_LAKE__TRIGGER_MS": "500",
    "LAKEMQ_SPARK__DRIVER_MEMORY": "1g",
    "LAKEMQ_SPARK__NICENESS": "0",
    "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1",
}


@pytest.mark.timeout(900)
def test_the_first_flights_go_all_the_way_and_the_demo_cleans_up(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LAKEMQ_")}
    done = subprocess.run(
        [sys.executable, "-m", "lakemq", "demo", "--limit", "2000"],
        capture_output=True,
        text=True,
        env=environment | SETTINGS | {"TMPDIR": str(tmp_path)},
        cwd=tmp_path,
        check=False,
    )
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
    assert list(tmp_path.glob("lakemq-demo-*")) == []
