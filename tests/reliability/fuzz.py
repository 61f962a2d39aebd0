"""Malformed bodies, frames and requests, over and over: `make fuzz`."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

from lakemq.testing import start_gateway
from tests.fuzz_access.run import run as run_for_access
from tests.reliability import rounds
from tests.reliability.parts import Done, Part, main
from tests.web import fuzz as requests_fuzz

_A_SECOND = 200
"""About so many requests are drawn and answered."""


def bodies(seed: int, seconds: float) -> Done:
    """Mutated bodies against the decoders."""
    return rounds.run("tests.gateway.decode.fuzz", "bodies", seed, seconds)


def frames(seed: int, seconds: float) -> Done:
    """Mutated frames against decoder, scan and recovery of the log."""
    return rounds.run("tests.storage.frame_fuzz", "frames", seed, seconds)


def requests(seed: int, seconds: float) -> Done:
    """Malformed requests against a gateway."""
    with tempfile.TemporaryDirectory(prefix="lakemq-fuzz-") as folder, start_gateway(Path(folder)) as gateway:
        statuses = requests_fuzz.fuzz(gateway, seed, range(2**62), seconds)
    findings = [line for line in gateway.log if "Traceback" in line]
    return Done({"requests": sum(statuses.values())}, findings)


def access(seed: int, seconds: float) -> Done:
    """Requests drawn from the OpenAPI document, by who may all, some and nothing."""
    statuses: dict[str, Counter[int]] = {}
    with tempfile.TemporaryDirectory(prefix="lakemq-fuzz-") as folder:
        findings = run_for_access(Path(folder), max(int(seconds * _A_SECOND), 1), seed, statuses)
    return Done({"requests": sum(sum(counted.values()) for counted in statuses.values())}, findings)


PARTS = {
    "bodies": Part("fuzzed bodies", bodies, "bodies", 1_000_000),
    "frames": Part("fuzzed frames", frames, "frames", 4_000_000),
    "requests": Part("fuzzed requests", requests, "requests", 300_000),
    "access": Part("fuzzed rights", access, "requests", 100_000),
}

if __name__ == "__main__":
    raise SystemExit(main("tests.reliability.fuzz", __doc__ or "", PARTS))
