"""Long polls on every queue of a topic, in a process of its own: `python -m benchmarks.receiver`.

Takes the messages of `paced`, each on its queue's connection, until no more come for
`--idle-seconds`; prints the time from when each was to be sent until it was there, parsed.
"""

from __future__ import annotations

import argparse
import json
import select
import socket
import subprocess
import sys
import time

import orjson

from benchmarks.paced import stamped_ns
from benchmarks.results import latencies
from benchmarks.wire import build, dial, length_of


class Poll:
    """One queue: a connection that always has a long poll under way."""

    def __init__(self, url: str, topic: str, queue_id: int) -> None:
        self.socket = dial(url)
        self._target = f"/v1/topics/{topic}/queues/{queue_id}/messages?max=1000&wait_ms=20000&offset="
        self._offset = 0
        self._received = b""
        self._ask()

    def _ask(self) -> None:
        self.socket.sendall(build("GET", self._target + str(self._offset)))

    def take(self) -> list[int]:
        """Take what has come: the times of the messages in it. The next poll is under way then."""
        piece = self.socket.recv(1 << 20)
        if not piece:
            raise ConnectionError("the server closed a connection")
        received = self._received = self._received + piece
        end = received.find(b"\r\n\r\n")
        if end < 0 or len(received) < end + 4 + length_of(received[:end]):
            return []
        if not received.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"a pull was refused: {received[:300]!r}")
        self._received = b""
        content = orjson.loads(received[end + 4 :])
        self._offset = content["next_offset"]
        self._ask()
        return [stamped_ns(message["body"]) for message in content["messages"]]


def receive(polls: list[Poll], idle_s: float, keep: bool) -> tuple[int, list[int]]:
    """Take messages until none come for so long: how many, and their latencies in ns."""
    by_socket: dict[socket.socket, Poll] = {poll.socket: poll for poll in polls}
    count = 0
    taken_ns: list[int] = []
    last = time.monotonic()
    while time.monotonic() - last < idle_s:
        for ready in select.select(list(by_socket), [], [], 0.5)[0]:
            sent_ns = by_socket[ready].take()
            if sent_ns:
                now = time.monotonic_ns()
                last = now / 1e9
                count += len(sent_ns)
                if keep:
                    taken_ns += [now - each for each in sent_ns]
    return count, taken_ns


def start(url: str, topic: str, queues: int, idle_s: float, skipped: int, keep: bool = True) -> subprocess.Popen[bytes]:
    """Start the process. `skipped`: so many latencies at the beginning are warm-up."""
    command = [sys.executable, "-m", "benchmarks.receiver", url, topic, str(queues)]
    command += ["--idle-seconds", str(idle_s), "--skip", str(skipped)]
    return subprocess.Popen([*command, *([] if keep else ["--count-only"])], stdout=subprocess.PIPE)


def _main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("topic")
    parser.add_argument("queues", type=int)
    parser.add_argument("--idle-seconds", type=float, default=5)
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--count-only", action="store_true")
    chosen = parser.parse_args()
    polls = [Poll(chosen.url, chosen.topic, queue_id) for queue_id in range(chosen.queues)]
    count, taken_ns = receive(polls, chosen.idle_seconds, not chosen.count_only)
    print(json.dumps({"received": count, **latencies(taken_ns[chosen.skip :])}))


if __name__ == "__main__":
    _main()
