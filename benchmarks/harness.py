"""The harness that measures other brokers, and us with the same load generator.

The environment's PEERS names a folder with its `bench.sh`. Without it, what needs it is skipped.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.results import say

PORT = 18080
ROOT = Path(__file__).parents[1]
GATEWAY = f"env LAKEMQ_STORAGE__DATA_DIR=$D/data LAKEMQ_GATEWAY__PORT={PORT} {sys.executable} -m lakemq.gateway"
FLOOR = f"{sys.executable} -m benchmarks.floor {PORT}"


def script() -> Path | None:
    """The harness's `bench.sh`; None where there is none."""
    folder = os.environ.get("PEERS")
    found = Path(folder) / "bench.sh" if folder else None
    if found is None or not found.exists():
        say("PEERS is not set to a folder with bench.sh: what needs the peers' harness is skipped")
        return None
    return found


def _namespace() -> str:
    """Whether a network namespace of its own can be had: "1" or "0"."""
    unshare = shutil.which("unshare")
    if unshare is None:
        return "0"
    tried = subprocess.run([unshare, "-n", "true"], stderr=subprocess.DEVNULL, check=False)
    return "1" if tried.returncode == 0 else "0"


def run_http(
    bench: Path, mode: str, only: str, seconds: float, folder: Path, extra: Mapping[str, str]
) -> list[dict[str, Any]]:
    """One run of the harness's `http` peer: starts the server of HTTP_START, measures, stops it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("LAKEMQ_", "HTTP_"))}
    environment |= {
        "NETNS": os.environ.get("NETNS", _namespace()),
        "PEERS_DATA": str(folder),
        "PYTHONPATH": str(ROOT),
        "ONLY": only,
        "DUR": str(seconds),
        "WARM": str(max(seconds / 4, 1)),
        "HTTP_START": GATEWAY,
        "HTTP_ADDR": f"127.0.0.1:{PORT}",
        "HTTP_CTYPE": "application/octet-stream",
        "HTTP_BODY": "{BODY}",
        "HTTP_SETUP": "PUT /v1/topics/{TOPIC}",
        "HTTP_SETUP_BODY": '{"queues":4}',
        "HTTP_PRODUCE": "POST /v1/topics/{TOPIC}/messages" + ("?ack=sync" if mode == "sync" else ""),
        **extra,
    }
    done = subprocess.run(
        ["bash", str(bench), "http", mode],
        env=environment,
        stdout=subprocess.PIPE,
        check=True,
        timeout=seconds * 4 + 180,
    )
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith(b"{")]
