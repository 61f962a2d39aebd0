"""Certificates for tests, made by the openssl command."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

NAMES = "DNS:localhost,IP:127.0.0.1,IP:::1"


class Pair(NamedTuple):
    """The files of a certificate and its key."""

    cert: Path
    key: Path


class Authority:
    """Signs certificates. All of its files are in `folder`."""

    def __init__(self, folder: Path, name: str = "tests") -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.file, self._key = folder / f"{name}-ca.pem", folder / f"{name}-ca.key"
        openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"),
            *("-subj", f"/CN={name} authority", "-keyout", str(self._key), "-out", str(self.file)),
            *("-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign"),
        )

    def pair(self, name: str, names: str = NAMES, days: int = 2) -> Pair:
        """A certificate for these names. `days`: so long from now; negative: it has expired."""
        made = Pair(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        request, extensions = self._folder / f"{name}.csr", self._folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={names}\nbasicConstraints=CA:FALSE\n", "ascii")
        openssl(
            *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}"),
            *("-keyout", str(made.key), "-out", str(request)),
        )
        openssl(
            *("x509", "-req", "-in", str(request), "-CA", str(self.file), "-CAkey", str(self._key), "-CAcreateserial"),
            *("-days", str(days), "-extfile", str(extensions), "-out", str(made.cert)),
        )
        made.key.chmod(0o600)
        return made


def openssl(*arguments: str) -> None:
    """Run it; what it says is in the error."""
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
