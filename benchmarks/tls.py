"""What TLS costs: `python -m benchmarks.tls`.

Single 1 KiB raw POSTs on 64 kept connections, as in `benchmarks.single`, by turns to a broker without TLS and to one
with it. Counted is the broker's processor time a message; handshakes are made before.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path

from benchmarks.broker import gateway, make_topic, scratch
from benchmarks.options import sizes
from benchmarks.turns import TOPIC, Broker, compare
from lakemq.model.trust import Trust


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


def main() -> None:
    chosen = sizes(__doc__, seconds=(8, 1), rounds=(6, 1), connections=(64, 8))
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(scratch())
        cert, key = _certificate(folder)
        os.environ.update(Trust(str(cert)).as_environment())  # of the load's process too
        plain = stack.enter_context(gateway(folder / "plain"))
        secured = stack.enter_context(gateway(folder / "secured", tls__cert_file=cert, tls__key_file=key))
        for each in (plain, secured):
            make_topic(each.url, TOPIC, 4)
        compare("tls", Broker("without", plain), Broker("TLS", secured), chosen)


if __name__ == "__main__":
    main()
