"""What a console uses with no page open, and with ten pages that are kept current: `python -m benchmarks.console`.

The ten: four of the overview, three of one group, three of a topic that gets messages.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Generator
from http.client import HTTPConnection
from urllib.parse import urlsplit

from benchmarks import paced
from benchmarks.broker import gateway, make_topic, scratch
from benchmarks.cpu import Meter, rss_bytes, watch_cpu_s
from benchmarks.options import sizes
from benchmarks.results import emit, say
from benchmarks.wire import ask
from lakemq.testing import gateway_process
from lakemq.testing.gateway_process import environment_of
from lakemq.testing.server_process import ServerProcess

TOPICS, GROUPS = 100, 20
PAGES = ("/live/overview",) * 4 + ("/live/groups/group-0",) * 3 + ("/live/topics/paced",) * 3
READ_BYTES = 65536


class _Pages:
    """Live pages that are open, each read as it comes."""

    def __init__(self, url: str) -> None:
        self.read_bytes = 0
        parts = urlsplit(url)
        self._connections = [HTTPConnection(parts.hostname or "", parts.port, timeout=60) for _ in PAGES]
        self._threads = [
            threading.Thread(target=self._read, args=each, daemon=True)
            for each in zip(self._connections, PAGES, strict=True)
        ]
        for each in self._threads:
            each.start()

    def _read(self, connection: HTTPConnection, path: str) -> None:
        with contextlib.suppress(OSError, ValueError, AttributeError):  # which closing it ends in
            connection.request("GET", path)
            answer = connection.getresponse()
            if answer.status != 200:
                say(f"{path} is {answer.status}: {answer.read()[:500]!r}")
                return
            while part := answer.read1(READ_BYTES):
                self.read_bytes += len(part)

    def close(self) -> None:
        for each in self._connections:
            if each.sock is not None:
                each.sock.shutdown(2)
            each.close()
        for each in self._threads:
            each.join(10)


@contextlib.contextmanager
def _console(url: str) -> Generator[ServerProcess]:
    environment = environment_of(console__port=0)
    command = [sys.executable, "-m", "lakemq.console", url]
    process = ServerProcess("console", command, environment, gateway_process.spawn_by_default)
    try:
        yield process
    finally:
        process.kill()


def _fill(url: str) -> None:
    make_topic(url, "paced", 4)
    for number in range(TOPICS):
        make_topic(url, f"topic-{number}", 4)
    for number in range(GROUPS):
        offsets = [{"topic": "paced", "queue_id": queue, "offset": 0} for queue in range(4)]
        ask(url, "PUT", f"/v1/groups/group-{number}/offsets", {"offsets": offsets})


def _measure(what: str, pid: int, seconds: float, pages: _Pages | None = None) -> None:
    before = 0 if pages is None else pages.read_bytes
    with Meter(pid) as meter:
        used_s = watch_cpu_s(pid, seconds)
    more = {"rss_mib": round(rss_bytes(pid) / 2**20)}
    if pages is not None:
        more["pages_kib"] = (pages.read_bytes - before) // 1024
    emit(f"console, {what}", used_s / seconds * 100, "% of one core", {"seconds": seconds}, **more, **meter.spent())


def main() -> None:
    chosen = sizes(__doc__, seconds=(60.0, 5.0), settle_seconds=(10.0, 1.0), per_second=(5, 5))
    with scratch() as folder, gateway(folder / "data") as process, _console(process.url) as console:
        _fill(process.url)
        time.sleep(chosen.settle_seconds)
        say("console: no page is open")
        _measure("no page open", console.pid, chosen.seconds)
        total_s = int(chosen.seconds + 2 * chosen.settle_seconds)
        sender = paced.start(process.url, "paced", chosen.per_second, total_s)
        pages = _Pages(console.url)
        try:
            time.sleep(chosen.settle_seconds)
            say("console: ten pages are open")
            _measure("ten pages open", console.pid, chosen.seconds, pages)
        finally:
            pages.close()
            sender.communicate(timeout=60)


if __name__ == "__main__":
    main()
