"""What the long runs did, a JSON line each, so that they add up: docs/reliability/runs.jsonl.

`python -m tests.reliability.results` adds them up.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lakemq.storage.disk.clock import SystemClock

ROOT = Path(__file__).parents[2]
RUNS = ROOT / "docs/reliability/runs.jsonl"
FINDINGS_MAX = 5


def commit() -> str:
    """The commit that is tested; with a + when files differ from it."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--abbrev=10", "--dirty=+", "--exclude=*"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def append(
    run: str,
    seed: int,
    seconds: float,
    counts: dict[str, int],
    findings: Sequence[str] = (),
    path: Path = RUNS,
    tested: str | None = None,
) -> None:
    """Add a run's line: one write, so that two runs at once don't mix theirs."""
    line: dict[str, Any] = {
        "run": run,
        "seed": seed,
        "commit": tested or commit(),
        "ended_ms": SystemClock().now_ms(),
        "seconds": round(seconds),
        "counts": counts,
        "result": "failed" if findings else "passed",
    }
    if findings:
        line["findings"] = list(findings[:FINDINGS_MAX])
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line, separators=(",", ":")) + "\n")


def read(path: Path = RUNS) -> list[dict[str, Any]]:
    """All runs' lines."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def totals(lines: list[dict[str, Any]]) -> dict[str, Counter[str]]:
    """By run: how many passed and failed, the seconds, and all counts, of all lines."""
    found: dict[str, Counter[str]] = {}
    for line in lines:
        of_run = found.setdefault(line["run"], Counter())
        of_run.update({line["result"]: 1, "seconds": line["seconds"]})
        of_run.update(line["counts"])
    return found


def main() -> None:
    """The command."""
    for run, counts in totals(read()).items():
        shown = ", ".join(f"{name} {count:,}" for name, count in counts.items())
        sys.stdout.write(f"{run}: {shown}\n")


if __name__ == "__main__":
    main()
