"""Mixed load under mixed faults, for as long as you like: `make chaos`.

Each run of about a minute is a broker of its own, with a seed of its own; what it did is added to
docs/reliability/runs.jsonl. A failed run says its seed and leaves its history, log and data.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path

from lakemq.testing.history import Recorder
from tests.chaos.run import FAULTS, Outcome, Run
from tests.reliability.fork_server import GATEWAY, ForkServer
from tests.reliability.parts import FAILURES_MAX
from tests.reliability.results import RUNS, append

SMALL_DISK = "size=400m"
SHOWN_MAX = 10


@contextlib.contextmanager
def folder(small_disk: bool) -> Generator[Path]:
    """A folder, on a small file system of its own if it must be filled; kept when the run fails."""
    path = Path(tempfile.mkdtemp(prefix="lakemq-chaos-"))
    if small_disk:
        subprocess.run(["mount", "-t", "tmpfs", "-o", SMALL_DISK, "lakemq-chaos", str(path)], check=True)
    try:
        yield path
    finally:
        if small_disk:
            subprocess.run(["umount", "-l", str(path)], check=False)
        shutil.rmtree(path, ignore_errors=True)


def one(seed: int, seconds: float, kinds: list[str], keep: Path, forks: ForkServer) -> Outcome:
    """One run; its history stays in `keep` when it fails."""
    history = keep / f"chaos-{seed}.jsonl"
    with folder("disk" in kinds) as path, Recorder(history) as recorder:
        run = Run(path / "data", recorder, seed, kinds, forks=forks)
        outcome = run.run(seconds)
        if outcome.findings:
            if run.target.data_dir.is_dir():
                shutil.copytree(run.target.data_dir, keep / f"chaos-{seed}-data", dirs_exist_ok=True)
            (keep / f"chaos-{seed}.log").write_text("".join(run.target.log))
        else:
            history.unlink()
    return outcome


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--run-seconds", type=float, default=45.0, help="how long each run's load is")
    parser.add_argument("--seed", type=int, default=None, help="of the first run; the next ones count on")
    parser.add_argument("--kinds", default=",".join(FAULTS), help=f"faults, of {','.join(FAULTS)}")
    parser.add_argument("--results", type=Path, default=RUNS)
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()), help="where failed runs are left")
    arguments = parser.parse_args()
    kinds: list[str] = arguments.kinds.split(",")
    if "disk" in kinds and os.geteuid() != 0:
        sys.stdout.write("no faults of kind disk: only root can mount a small file system\n")
        kinds.remove("disk")
    seed: int = random.SystemRandom().randrange(2**31) if arguments.seed is None else arguments.seed
    arguments.keep.mkdir(parents=True, exist_ok=True)
    with ForkServer(*GATEWAY, "lakemq.testing.clocks") as forks:
        return _runs(arguments, kinds, seed, forks)


def _runs(arguments: argparse.Namespace, kinds: list[str], seed: int, forks: ForkServer) -> int:
    end = time.monotonic() + arguments.minutes * 60
    failed = in_a_row = 0
    while True:
        begun = time.monotonic()
        outcome = one(seed, min(arguments.run_seconds, arguments.minutes * 60), kinds, arguments.keep, forks)
        findings = [str(each) for each in outcome.findings]
        append("chaos", seed, time.monotonic() - begun, dict(outcome.counts), findings, arguments.results)
        sys.stdout.write(f"seed {seed}: {dict(outcome.counts)}\n")
        for finding in findings[:SHOWN_MAX]:
            sys.stdout.write(f"  {finding}\n")
        sys.stdout.flush()
        failed += bool(findings)
        in_a_row = in_a_row + 1 if findings else 0
        seed += 1
        if in_a_row == FAILURES_MAX:
            sys.stdout.write("it fails again and again\n")
        if time.monotonic() >= end or in_a_row == FAILURES_MAX:
            return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
