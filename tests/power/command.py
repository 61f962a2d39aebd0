"""The command of a run of power cuts, and one such run."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Protocol

from lakemq.testing.history import Finding, Recorder
from tests.power.machine import FUSE, why_not
from tests.reliability.fork_server import GATEWAY, ForkServer

SHOWN_MAX = 10


class Run(Protocol):
    """What is cut again and again. `counts` is what it did."""

    counts: Counter[str]

    def run(self, cuts: int) -> list[Finding | str]:
        """So many cuts, and the check."""
        ...


class MakeRun(Protocol):
    """Its class."""

    def __call__(self, folder: Path, recorder: Recorder, seed: int, forks: ForkServer) -> Run: ...


def cut(make: MakeRun, seed: int, cuts: int) -> tuple[Counter[str], list[Finding | str]]:
    """So many cuts of a run of its own."""
    with (
        tempfile.TemporaryDirectory(prefix="lakemq-power-") as folder,
        Recorder() as recorder,
        ForkServer(*GATEWAY, "lakemq.testing.clocks", "tests.power.file_system", **FUSE) as forks,
    ):
        run = make(Path(folder), recorder, seed, forks)
        findings = run.run(cuts)
    return run.counts, findings


def main(program: str, about: str, make: MakeRun, cuts: int) -> int:
    """The command; `cuts` unless it is told otherwise."""
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=about)
    parser.add_argument("--cuts", type=int, default=cuts)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31))
    arguments = parser.parse_args()
    if (why := why_not()) is not None:
        sys.stdout.write(f"no power cuts of whole processes: {why}\n")
        return 0
    sys.stdout.write(f"seed {arguments.seed}\n")
    sys.stdout.flush()  # whatever comes now
    counts, findings = cut(make, arguments.seed, arguments.cuts)
    sys.stdout.write(f"{dict(counts)}\n")
    sys.stdout.writelines(f"  {each}\n" for each in findings[:SHOWN_MAX])
    return 1 if findings else 0
