"""Options of a measure: numbers with a full size, and a quick one that only shows that it works."""

from __future__ import annotations

import argparse
import signal
import sys


def sizes(description: str | None, **defaults: tuple[float, float]) -> argparse.Namespace:
    """The command's options. Each is (full, quick): `--quick` takes the second for all not given."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is stopped
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="seconds in all; the figures mean nothing")
    for name, (full, quick) in defaults.items():
        option = "--" + name.replace("_", "-")
        parser.add_argument(option, type=type(full), help=f"default {full}; with --quick {quick}")
    chosen = parser.parse_args()
    for name, (full, quick) in defaults.items():
        if getattr(chosen, name) is None:
            setattr(chosen, name, quick if chosen.quick else full)
    return chosen
