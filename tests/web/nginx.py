"""nginx in front of a gateway, or of a console, with the configuration that deploy/ has for it."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.certificates import Pair

ROOT = Path(__file__).parents[2]
OWN = ROOT / ".venv/nginx/usr/sbin/nginx"
STARTS_WITHIN_S = 60.0

MAIN = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/lakemq.conf;
}}
"""


def find_nginx() -> str:
    """The program. Skips the test where there is none, or one that lacks its libraries."""
    found = shutil.which("nginx") or (str(OWN) if OWN.exists() else None)
    if found is None:
        pytest.skip("there is no nginx: scripts/setup-debian.sh gets Debian's")
    shown = subprocess.run([found, "-v"], capture_output=True, text=True, check=False)
    if shown.returncode:
        pytest.skip(f"nginx doesn't run here: {shown.stderr.strip()}")
    return found


class Example(NamedTuple):
    """A file of `deploy/nginx`, with the address of what is behind it, and the name that it has for clients."""

    file: str
    behind: str
    name: str


BROKER = Example("lakemq.conf", "127.0.0.1:8080", "mq.example.com")
CONSOLE = Example("console.conf", "127.0.0.1:8088", "console.example.com")


def configured(example: Example, behind: str, port: int, pair: Pair) -> str:
    """The example, for that server, port and certificate. Raises `AssertionError` where it names them otherwise."""
    text = (ROOT / "deploy/nginx" / example.file).read_text(encoding="utf-8")
    changes = {
        f"server {example.behind};": f"server {behind.removeprefix('http://')};",
        "listen 443 ssl;": f"listen 127.0.0.1:{port} ssl;",
        f"/etc/nginx/tls/{example.name}.crt": str(pair.cert),
        f"/etc/nginx/tls/{example.name}.key": str(pair.key),
    }
    for said, meant in changes.items():
        assert text.count(said) == 1, said
        text = text.replace(said, meant)
    return text


@contextmanager
def nginx(folder: Path, behind: str, port: int, pair: Pair, example: Example = BROKER) -> Generator[None]:
    """It, while it is needed."""
    program = find_nginx()
    folder.mkdir(exist_ok=True)
    (folder / "nginx.conf").write_text(MAIN.format(folder=folder), encoding="utf-8")
    (folder / "lakemq.conf").write_text(configured(example, behind, port, pair), encoding="utf-8")
    log = folder / "log"
    with log.open("wb") as said:
        process = subprocess.Popen(
            [program, "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", "stderr"], stderr=said
        )
    try:
        until_s = time.monotonic() + STARTS_WITHIN_S
        while not _listens(port):
            assert process.poll() is None, log.read_text(errors="replace")
            assert time.monotonic() < until_s, log.read_text(errors="replace")
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait()


def _listens(port: int) -> bool:
    with closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
