"""Kills, power cuts and damage, over and over: `make crash`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.power.command import cut
from tests.power.lake_run import LakeRun
from tests.power.machine import why_not
from tests.power.run import PowerRun
from tests.reliability.parts import Done, Part, main
from tests.storage import damage, kill_run, power_cuts, read_faults, repair_cuts

LOG_CUTS = 20
SEED_STEP = 1_000_000
LAKE_CUT_S = 30


def kills(seed: int, seconds: float) -> Done:
    """kill -9 of a gateway under load at random times, and while it starts."""
    with tempfile.TemporaryDirectory(prefix="lakemq-kill-") as folder:
        done = kill_run.run(Path(folder), seconds, seed)
    return Done({"kills": done.kills, "requests": done.ledger.requests, "messages": len(done.ledger.promised)})


def calls(seed: int, seconds: float) -> Done:
    """A death in a mutating call of the log, of power or of the process, in-process: any some seeds die in calls
    far from one another, and as many as there are calls in all of them."""
    with tempfile.TemporaryDirectory(prefix="lakemq-calls-") as folder:
        count = power_cuts.count_calls(Path(folder))
    end = time.monotonic() + seconds
    rounds = 0
    while rounds == 0 or time.monotonic() < end:
        power_cuts.run_seed(seed * SEED_STEP + rounds, count)
        rounds += 1
    return Done({"rounds": rounds})


def power(seed: int, seconds: float) -> Done:
    """Power cuts under a whole gateway: several logs, each over several cuts."""
    end = time.monotonic() + seconds
    counts: Counter[str] = Counter()
    findings: list[object] = []
    while not findings:
        counted, found = cut(PowerRun, seed, LOG_CUTS)
        counts += counted
        findings += [f"seed {seed}: {each}" for each in found]
        seed += 1_000_003
        if time.monotonic() > end:
            break
    return Done(dict(counts), findings)


def lake_power(seed: int, seconds: float) -> Done:
    """Power cuts under gateway, jobs and lake together; a cut takes about half a minute."""
    counts, findings = cut(LakeRun, seed, max(1, round(seconds / LAKE_CUT_S)))
    return Done(dict(counts), findings)


def drivers(seed: int, seconds: float) -> Done:
    """kill -9 of the lake's driver amid everything, by the test of it."""
    kills = max(2, round(seconds / LAKE_CUT_S))
    environment = os.environ | {"LAKEMQ_TEST_KILLS": str(kills), "LAKEMQ_TEST_SEED": str(seed)}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "tests/jobs/lake/test_lake_kill.py"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return Done({"kills": kills}, [done.stdout[-2000:]] if done.returncode else [])


def reads(seed: int, seconds: float) -> Done:
    """A disk that refuses to read, in any call of a log that reads, in-process."""
    with tempfile.TemporaryDirectory(prefix="lakemq-reads-") as folder:
        count = read_faults.count_reads(Path(folder))
    end = time.monotonic() + seconds
    rounds = 0
    while rounds == 0 or time.monotonic() < end:
        read_faults.run_read_fault(seed * SEED_STEP + rounds, count)
        rounds += 1
    return Done({"rounds": rounds})


def repairs(seed: int, seconds: float) -> Done:
    """A death in a mutating call of `lakemq log repair`, of power or of the process, in-process."""
    end = time.monotonic() + seconds
    rounds = 0
    while rounds == 0 or time.monotonic() < end:
        repair_cuts.run_repair(seed * SEED_STEP + rounds)
        rounds += 1
    return Done({"rounds": rounds})


def truncations_and_flips(seed: int, seconds: float) -> Done:
    """Every truncation and every flipped bit of a log of 64 KiB; the seed is the first case of the run."""
    counts, broken = damage.run(seed, seconds)
    return Done({"cases": counts.total(), **counts}, broken)


PARTS = {
    "kills": Part("kills of the gateway", kills, "kills", 1_900),
    "calls": Part("deaths in a call of the log", calls, "rounds", 10_000),
    "reads": Part("reads that the disk refuses", reads, "rounds", 5_000),
    "repairs": Part("deaths in a call of a repair", repairs, "rounds", 5_000),
    "damage": Part("truncations and flipped bits", truncations_and_flips, "cases", damage.CASES, goes_on=True),
    "drivers": Part("kills of the driver", drivers, "kills", 100),
    "power": Part("power cuts of the log", power, "cuts", 1_000, why_not),
    "lake": Part("power cuts of log and lake", lake_power, "cuts", 100, why_not),
}

if __name__ == "__main__":
    raise SystemExit(main("tests.reliability.crash", __doc__ or "", PARTS))
