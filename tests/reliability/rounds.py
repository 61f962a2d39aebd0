"""A fuzzer's command: rounds, each of its own number, in a process of their own, so that its death is an answer too.

The round that it died in is printed, and `--seed S --start ROUND --rounds 1` does that round again.
"""

from __future__ import annotations

import argparse
import faulthandler
import mmap
import re
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from tests.reliability.parts import Done

ROUND_SECONDS_MAX = 60
SAID = re.compile(r"(\d+) rounds, (\d+) accepted")

Round = Callable[[int], bool]
"""What round of that number does; whether what it made was accepted. Raises what is not allowed."""


def main(
    program: str, about: str, rounds: Callable[[int], AbstractContextManager[Round]], memory_bytes_max: int
) -> int:
    """The command. `rounds` gives those of a seed; one may take so much of Arrow's memory at most."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {program}", description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=86_400.0, help="stop after this time")
    parser.add_argument("--rounds", type=int, default=2**62, help="stop after so many rounds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0, help="the first round")
    parser.add_argument("--notes", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.notes is None:
        return _supervise(program, arguments)
    with rounds(arguments.seed) as do_round:
        _work(arguments, do_round, memory_bytes_max)
    return 0


def _work(arguments: argparse.Namespace, do_round: Round, memory_bytes_max: int) -> None:
    """The rounds, in this process; each is written down before it begins."""
    faulthandler.enable()
    pool = pa.default_memory_pool()
    end = time.monotonic() + arguments.seconds
    number, accepted = arguments.start, 0
    with Path(arguments.notes).open("r+b") as file, mmap.mmap(file.fileno(), 8) as notes:
        while number < arguments.start + arguments.rounds and time.monotonic() < end:
            notes[:8] = number.to_bytes(8, "little")
            if number % 256 == 0:
                faulthandler.dump_traceback_later(ROUND_SECONDS_MAX, exit=True)
            accepted += do_round(number)
            number += 1
    faulthandler.cancel_dump_traceback_later()
    if pool.max_memory() > memory_bytes_max:
        raise AssertionError(f"a round took {pool.max_memory()} bytes of memory")
    done = number - arguments.start
    sys.stdout.write(f"{done} rounds, {accepted} accepted, {pool.max_memory()} bytes at most\n")


def _supervise(program: str, arguments: argparse.Namespace) -> int:
    """The rounds, in a process of their own; its exit code, after telling where it died."""
    with TemporaryDirectory() as folder:
        notes = Path(folder) / "round"
        notes.write_bytes(bytes(8))
        command = [sys.executable, "-m", program, "--notes", str(notes)]
        for name in ("seed", "start", "rounds", "seconds"):
            command += [f"--{name}", str(getattr(arguments, name))]
        code = subprocess.run(command, check=False).returncode
        if code:
            number = int.from_bytes(notes.read_bytes(), "little")
            again = f"--seed {arguments.seed} --start {number} --rounds 1"
            sys.stderr.write(f"exit code {code}; again: python -m {program} {again}\n")
    return code


def run(program: str, counted: str, seed: int, seconds: float) -> Done:
    """The command, for so long, as a part of the long forms."""
    command = [sys.executable, "-m", program, "--seed", str(seed), "--seconds", str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = SAID.match(done.stdout)
    if done.returncode or found is None:
        return Done({}, [done.stderr[-2000:]])
    return Done({counted: int(found[1]), "accepted": int(found[2])})


@contextmanager
def plain(do_round: Round) -> Generator[Round]:
    """Rounds that need nothing put away after them."""
    yield do_round
