"""Kills and power cuts, over and over: `make crash`."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.power.machine import why_not
from tests.power.run import cut
from tests.reliability.parts import Done, Part, main
from tests.storage import kill_run

LOG_CUTS = 10


def kills(seed: int, seconds: float) -> Done:
    """kill -9 of a gateway under load at random times, and while it starts."""
    with tempfile.TemporaryDirectory(prefix="lakemq-kill-") as folder:
        done = kill_run.run(Path(folder), seconds, seed)
    return Done({"kills": done.rounds, "requests": done.ledger.requests, "messages": len(done.ledger.promised)})


def power(seed: int, seconds: float) -> Done:
    """Power cuts under a whole gateway: several logs, each over several cuts."""
    end = time.monotonic() + seconds
    counts: Counter[str] = Counter()
    findings: list[object] = []
    while not findings:
        counted, found = cut(seed, LOG_CUTS)
        counts += counted
        findings += [f"seed {seed}: {each}" for each in found]
        seed += 1_000_003
        if time.monotonic() > end:
            break
    return Done(dict(counts), findings)


PARTS = {
    "kills": Part("kills of the gateway", kills, "kills", 1_900),
    "power": Part("power cuts of the log", power, "cuts", 1_000, why_not),
}

if __name__ == "__main__":
    raise SystemExit(main("tests.reliability.crash", __doc__ or "", PARTS))
