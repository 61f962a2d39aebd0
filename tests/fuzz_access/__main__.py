"""Requests drawn from the OpenAPI document, asked by nobody, by a user with few rights and by the administrator."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.fuzz_access.run import run


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz_access", description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000, help="of all together")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    statuses: dict[str, Counter[int]] = {}
    with tempfile.TemporaryDirectory(prefix="lakemq-fuzz-") as folder:
        findings = run(Path(folder), arguments.requests, arguments.seed, statuses)
    for who, counted in statuses.items():
        sys.stdout.write(f"{who}: {sum(counted.values())} requests, {dict(sorted(counted.items()))}\n")
    for finding in findings:
        sys.stdout.write(f"FOUND {finding}\n")
    return int(bool(findings))


if __name__ == "__main__":
    raise SystemExit(main())
