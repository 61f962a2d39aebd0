"""Single raw POSTs at a fixed rate, in a process of its own: `python -m benchmarks.paced`.

Every message has its time to be sent from the beginning, and carries it: when the server stalls,
those that are due go on waiting, and their waiting counts. It prints what happened as JSON.
"""

from __future__ import annotations

import argparse
import json
import select
import socket
import subprocess
import sys
import time
from collections import deque

from benchmarks.bodies import random_bodies
from benchmarks.results import latencies
from benchmarks.wire import build, dial, length_of

STAMP_BYTES = 20
BODY_BYTES = 1024
CONNECTIONS = 16


def stamp(time_ns: int) -> bytes:
    """The beginning of a body: when it was to be sent, on the machine's monotonic clock."""
    return b"~%019d" % time_ns


def stamped_ns(body: str) -> int:
    """The time that the body carries."""
    return int(body[1:STAMP_BYTES])


def stamped_body(time_ns: int) -> bytes:
    """A whole body: the stamp, and text that is the same in all."""
    return stamp(time_ns) + random_bodies(1, BODY_BYTES)[0].hex().encode()[: BODY_BYTES - STAMP_BYTES]


class Sender:
    """Sends what is due on the connection that is free, or as soon as one is."""

    def __init__(self, url: str, topic: str, headers: dict[str, str]) -> None:
        request = build("POST", f"/v1/topics/{topic}/messages", stamped_body(0), content_type="text/plain", **headers)
        place = len(request) - BODY_BYTES
        self._before, self._after = request[:place], request[place + STAMP_BYTES :]
        self._free: deque[socket.socket] = deque(dial(url) for _ in range(CONNECTIONS))
        self._busy: dict[socket.socket, tuple[int, bytes]] = {}
        self._due: deque[int] = deque()
        self.acknowledged_ns: list[int] = []
        self.errors = 0

    def add(self, due_ns: int) -> None:
        """A message is due."""
        self._due.append(due_ns)
        self._send()

    def _send(self) -> None:
        while self._due and self._free:
            due_ns, connection = self._due.popleft(), self._free.popleft()
            connection.sendall(self._before + stamp(due_ns) + self._after)
            self._busy[connection] = (due_ns, b"")

    def take_answers(self, wait_s: float) -> None:
        """Take the answers that are there, or come within `wait_s`."""
        if not self._busy:
            time.sleep(wait_s)
            return
        for connection in select.select(list(self._busy), [], [], wait_s)[0]:
            due_ns, received = self._busy[connection]
            piece = connection.recv(1 << 16)
            if not piece:
                raise ConnectionError("the server closed a connection")
            received += piece
            end = received.find(b"\r\n\r\n")
            if end < 0 or len(received) < end + 4 + length_of(received[:end]):
                self._busy[connection] = (due_ns, received)
                continue
            self.errors += not received.startswith(b"HTTP/1.1 2")
            self.acknowledged_ns.append(time.monotonic_ns() - due_ns)
            del self._busy[connection]
            self._free.append(connection)
        self._send()

    @property
    def waiting(self) -> int:
        """Messages that are not yet answered."""
        return len(self._busy) + len(self._due)


def _run(url: str, topic: str, rate: float, seconds: float, headers: dict[str, str]) -> dict[str, float]:
    sender = Sender(url, topic, headers)
    count = int(rate * seconds)
    begin = time.monotonic_ns() + 100_000_000
    number = 0
    while number < count:
        due = begin + int(number * 1e9 / rate)
        left = due - time.monotonic_ns()
        if left > 0:
            sender.take_answers(left / 1e9)
        else:
            sender.add(due)
            number += 1
            if number % 16 == 0:
                sender.take_answers(0)
    deadline = time.monotonic() + 10
    while sender.waiting and time.monotonic() < deadline:
        sender.take_answers(0.1)
    answer = {"sent": count, "unanswered": sender.waiting, "errors": sender.errors}
    return {**answer, **latencies(sender.acknowledged_ns, "ack_")}


def start(url: str, topic: str, rate: float, seconds: float, **headers: str) -> subprocess.Popen[bytes]:
    """Start the process; it prints its JSON when it is done. Headers as `lakemq_delay_ms="7300"`."""
    command = [sys.executable, "-m", "benchmarks.paced", url, topic, str(rate), str(seconds)]
    command += [f"{name}={value}" for name, value in headers.items()]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def _main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("topic")
    parser.add_argument("rate", type=float)
    parser.add_argument("seconds", type=float)
    parser.add_argument("headers", nargs="*", metavar="NAME=VALUE")
    chosen = parser.parse_args()
    headers = dict(header.split("=", 1) for header in chosen.headers)
    print(json.dumps(_run(chosen.url, chosen.topic, chosen.rate, chosen.seconds, headers)))


if __name__ == "__main__":
    _main()
