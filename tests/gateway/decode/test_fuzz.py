from __future__ import annotations

import subprocess
import sys

from lakemq.gateway.decode import decode
from tests.gateway.decode.fuzz import LIMITS, arrow_requests, other_requests


def test_what_the_fuzzer_mutates_is_valid() -> None:
    for request in (*arrow_requests(), *other_requests()):
        assert decode(*request, LIMITS)


def test_mutated_requests_are_decoded_or_refused_and_nothing_else() -> None:
    """`make fuzz` is the long form."""
    command = [sys.executable, "-m", "tests.gateway.decode.fuzz", "--seed", "1", "--rounds", "3000"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("3000 rounds")
