"""Malformed bodies and requests, over and over: `make fuzz`."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from lakemq.testing import start_gateway
from tests.gateway import fuzz as requests_fuzz
from tests.reliability.parts import Done, Part, main

DECODED = re.compile(r"(\d+) requests, (\d+) decoded")


def bodies(seed: int, seconds: float) -> Done:
    """Mutated bodies against the decoders, in a process of their own: it may not die either."""
    command = [sys.executable, "-m", "tests.decode.fuzz", "--seed", str(seed), "--seconds", str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = DECODED.match(done.stdout)
    if done.returncode or found is None:
        return Done({}, [done.stderr[-2000:]])
    return Done({"bodies": int(found[1]), "decoded": int(found[2])})


def requests(seed: int, seconds: float) -> Done:
    """Malformed requests against a gateway."""
    with tempfile.TemporaryDirectory(prefix="lakemq-fuzz-") as folder, start_gateway(Path(folder)) as gateway:
        statuses = requests_fuzz.fuzz(gateway, seed, range(2**62), seconds)
    findings = [line for line in gateway.log if "Traceback" in line]
    return Done({"requests": sum(statuses.values())}, findings)


PARTS = {
    "bodies": Part("fuzzed bodies", bodies, "bodies", 5_000_000),
    "requests": Part("fuzzed requests", requests, "requests", 300_000),
}

if __name__ == "__main__":
    raise SystemExit(main("tests.reliability.fuzz", __doc__ or "", PARTS))
