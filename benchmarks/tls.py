"""What TLS costs: `python -m benchmarks.tls`.

Single 1 KiB raw POSTs on 64 kept connections, as in `benchmarks.single`, by turns to a broker without TLS and to one
with it. Counted is the broker's processor time a message; handshakes are made before.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
from pathlib import Path

from benchmarks import closed
from benchmarks.broker import gateway, make_topic, scratch
from benchmarks.options import sizes
from benchmarks.results import emit, say
from lakemq.model.trust import Trust
from lakemq.testing import GatewayProcess

TOPIC = "single"


def _certificate(folder: Path) -> tuple[Path, Path]:
    """One for this machine, which is its own authority, and its key."""
    cert, key = folder / "broker.pem", folder / "broker.key"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]
    command += ["-subj", "/CN=broker", "-addext", "subjectAltName=IP:127.0.0.1"]
    command += ["-keyout", str(key), "-out", str(cert)]
    subprocess.run(command, check=True, capture_output=True)
    key.chmod(0o600)
    return cert, key


def _measure(name: str, process: GatewayProcess, connections: int, seconds: float) -> float:
    """Broker CPU in microseconds a message."""
    target = f"/v1/topics/{TOPIC}/messages"
    found = closed.measure(process.url, target, connections, 1.0, seconds, process.pid)
    if found["errors"]:
        raise RuntimeError(f"{name}: {found['errors']} requests were refused")
    each_us = found["server_cpu_s"] / (found["msgs"] * (seconds + 1.0) / seconds) * 1e6
    settings = {"connections": connections, "seconds": seconds, "body_bytes": 1024}
    emit(f"broker CPU a message, {name}", each_us, "us", settings, msgs_per_s=found["msgs_per_s"])
    return each_us


def main() -> None:
    chosen = sizes(__doc__, seconds=(8, 1), rounds=(6, 1), connections=(64, 8))
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(scratch())
        cert, key = _certificate(folder)
        os.environ.update(Trust(str(cert)).as_environment())  # of the load's process too
        plain = stack.enter_context(gateway(folder / "plain"))
        secured = stack.enter_context(gateway(folder / "secured", tls__cert_file=cert, tls__key_file=key))
        brokers = {"without": plain, "TLS": secured}
        found: dict[str, list[float]] = {name: [] for name in brokers}
        for each in brokers.values():
            make_topic(each.url, TOPIC, 4)
        for turn in range(chosen.rounds):
            for name in list(brokers) if turn % 2 == 0 else list(brokers)[::-1]:
                say(f"tls: round {turn + 1}, {name}")
                found[name].append(_measure(name, brokers[name], chosen.connections, chosen.seconds))
    ratio = statistics.median([its / lone for its, lone in zip(found["TLS"], found["without"], strict=True)])
    emit("broker CPU a message, TLS against without", ratio, "", {"rounds": chosen.rounds})


if __name__ == "__main__":
    main()
