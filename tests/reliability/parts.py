"""What the long forms run over and over: parts of a minute or two, each with a seed of its own."""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.reliability.results import RUNS, append, read, totals

SHOWN_MAX = 10


class Done(NamedTuple):
    """What a part did, and what it found."""

    counts: dict[str, int]
    findings: Sequence[object] = ()


class Part(NamedTuple):
    """`run(seed, seconds)` goes on for about so long. `counted` of the results is what `goal` is of;
    `why_not`: why it can't run here. `goes_on`: its seeds are the numbers of cases, all of which are done once,
    one after the other, as many in a run as it counts."""

    name: str
    run: Callable[[int, float], Done]
    counted: str
    goal: int
    why_not: Callable[[], str | None] = lambda: None
    goes_on: bool = False


def main(program: str, about: str, parts: Mapping[str, Part]) -> int:
    """The command: each part in turn, until the time is over or all goals are reached."""
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=about)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--part-seconds", type=float, default=60.0, help="how long each part runs at a time")
    parser.add_argument("--seed", type=int, default=None, help="of the first part; the next ones count on")
    parser.add_argument("--parts", default=",".join(parts), help=f"of {','.join(parts)}")
    parser.add_argument("--to-goals", action="store_true", help="stop a part when the results reach its goal")
    parser.add_argument("--results", type=Path, default=RUNS)
    arguments = parser.parse_args()
    left = {name: parts[name] for name in arguments.parts.split(",")}
    for name in [name for name, part in left.items() if part.why_not() is not None]:
        sys.stdout.write(f"{name} is left out: {left.pop(name).why_not()}\n")
    seed: int = random.SystemRandom().randrange(2**31) if arguments.seed is None else arguments.seed
    end = time.monotonic() + arguments.minutes * 60
    failed = False
    while left:
        for name, part in list(left.items()):
            if (
                arguments.to_goals
                and totals(read(arguments.results)).get(part.name, {}).get(part.counted, 0) >= part.goal
            ):
                del left[name]
                continue
            first = seed
            if part.goes_on:
                first = _next_case(part, arguments.results)
                if first >= part.goal:
                    del left[name]
                    continue
            failed |= _run(part, first, min(arguments.part_seconds, arguments.minutes * 60), arguments.results)
            seed += 1
            if time.monotonic() >= end:
                return int(failed)
    return int(failed)


def _next_case(part: Part, results: Path) -> int:
    """The first case that no run has done; one that has failed has been done, too."""
    done = [line for line in read(results) if line["run"] == part.name]
    at = 0
    for line in sorted(done, key=lambda line: line["seed"]):
        if line["seed"] <= at:
            at = max(at, line["seed"] + line["counts"].get(part.counted, 0))
    return at


def _run(part: Part, seed: int, seconds: float, results: Path) -> bool:
    begun = time.monotonic()
    try:
        done = part.run(seed, seconds)
    except Exception as error:  # noqa: BLE001  whatever it is, it is what the run has found
        traceback.print_exc()
        done = Done({}, [f"{type(error).__name__}: {error}"[:2000]])
    findings = [str(each) for each in done.findings]
    append(part.name, seed, time.monotonic() - begun, done.counts, findings, results)
    sys.stdout.write(f"{part.name}, seed {seed}: {done.counts}\n")
    sys.stdout.writelines(f"  {finding}\n" for finding in findings[:SHOWN_MAX])
    sys.stdout.flush()
    return bool(findings)
