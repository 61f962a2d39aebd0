"""The runner of the long forms: whatever becomes of a part, the others go on, and the results say it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.reliability.parts import run_apart
from tests.reliability.results import read

PROGRAM = "tests.reliability.ending"


def run(results: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", PROGRAM, "--results", str(results), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def wait_for_end(pid: str) -> None:
    """Until it is gone, or is only waited for by nobody."""
    end = time.monotonic() + 60
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
            assert time.monotonic() < end, f"process {pid} runs still"
            time.sleep(0.05)


def test_a_part_that_ends_or_dies_is_a_failed_line_and_the_others_go_on(tmp_path: Path) -> None:
    results = tmp_path / "runs.jsonl"
    parts = ["--parts", "well,finds,raises,ends,dies"]
    done = run(results, "--to-goals", "--minutes", "60", "--seed", "7", *parts)
    lines: dict[str, list[dict[str, Any]]] = {}
    for line in read(results):
        lines.setdefault(line["run"], []).append(line)
    assert done.returncode == 1
    assert [(line["counts"], line["result"]) for line in lines["well"]] == [
        ({"done": 1, "seed": 7}, "passed"),
        ({"done": 1, "seed": 12}, "passed"),
    ]
    findings = {name: line["findings"] for name, (line, *_) in lines.items() if name != "well"}
    assert findings == {
        "finds": ["seed 8 is odd"],
        "raises": ["ValueError: seed 9"],
        "ends": ["the part ended with exit code 3; its last words: no more\n"],
        "dies": ["the part ended with exit code -9; its last words: "],
    }
    assert all(finding.strip() in done.stdout for (finding,) in findings.values())


def test_a_part_that_hangs_ends_with_what_it_has_started() -> None:
    (finding,) = run_apart(PROGRAM, "hangs", 1, seconds=0, late_s=3).findings
    said, _, child = str(finding).partition("child ")
    assert said == "the part did not end; its last words: "
    if child:  # a machine that is slow enough has not come so far
        wait_for_end(child.strip())


def test_a_runner_that_is_stopped_stops_its_part(tmp_path: Path) -> None:
    results, child = tmp_path / "runs.jsonl", tmp_path / "child"
    command = [sys.executable, "-m", PROGRAM, "--results", str(results), "--parts", "hangs"]
    with subprocess.Popen(command, env=os.environ | {"CHILD": str(child)}) as runner:
        while not child.exists():
            assert runner.poll() is None
            time.sleep(0.05)
        runner.terminate()
        assert runner.wait() == 143
    wait_for_end(child.read_text())


def test_a_part_that_fails_again_and_again_is_left_out(tmp_path: Path) -> None:
    results = tmp_path / "runs.jsonl"
    done = run(results, "--minutes", "60", "--parts", "dies")
    assert done.returncode == 1
    assert [line["result"] for line in read(results)] == ["failed"] * 3
    assert done.stdout.endswith("dies is left out from here on: it fails again and again\n")


def test_a_part_that_is_none_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path / "runs.jsonl", "--parts", "well,wel")
    assert done.returncode == 2
    assert "there is no part wel, only well, " in done.stderr
    assert not os.listdir(tmp_path)  # noqa: PTH208
