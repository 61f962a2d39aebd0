"""Long polls on every queue of a topic, in a process of its own: `python -m benchmarks.receiver`.

Takes messages, each on its queue's connection, until no more come for `--idle-seconds`, or until
`--expected` have come and none more for two seconds. What it prints of them, parsed:
by default, of the messages of `paced`, the time from when each was to be sent until it was there;
`--delay-ms`: how late each was there, and stored, after it was due;
`--numbers`: the number that each body carries, and when it was there.
"""

from __future__ import annotations

import argparse
import select
import socket
import subprocess
import sys
import time
from typing import Any, Protocol

import orjson

from benchmarks.paced import stamped_ns
from benchmarks.results import latencies
from benchmarks.wire import build, dial, length_of

_DUPLICATES_S = 2.0


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

    def take(self) -> list[dict[str, Any]]:
        """Take what has come: the messages in it. The next poll is under way then."""
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
        return content["messages"]


class Taken(Protocol):
    """What is kept of the messages."""

    def add(self, messages: list[dict[str, Any]]) -> None:
        """These have just come."""
        ...

    def answer(self) -> dict[str, Any]:
        """What is printed."""
        ...


class Stamped:
    """The time from when each was to be sent. `skipped`: so many at the beginning are warm-up."""

    def __init__(self, skipped: int, keep: bool) -> None:
        self._skipped = skipped
        self._keep = keep
        self._taken_ns: list[int] = []

    def add(self, messages: list[dict[str, Any]]) -> None:
        if self._keep:
            now = time.monotonic_ns()
            self._taken_ns += [now - stamped_ns(message["body"]) for message in messages]

    def answer(self) -> dict[str, Any]:
        return latencies(self._taken_ns[self._skipped :])


class Delayed:
    """How late each was: here and in its topic after its `deliver_at_ms`, and here after the time at
    which it was to be sent and its delay, as the peers' harness counts."""

    def __init__(self, skipped: int, delay_ms: int) -> None:
        self._skipped = skipped
        self._delay_ns = delay_ms * 1_000_000
        self._late_ns: list[int] = []
        self._stored_ns: list[int] = []
        self._after_send_ns: list[int] = []
        self._sent: set[int] = set()

    def add(self, messages: list[dict[str, Any]]) -> None:
        now, now_monotonic = time.time_ns(), time.monotonic_ns()
        for message in messages:
            due, sent = message["deliver_at_ms"], stamped_ns(message["body"])
            self._late_ns.append(now - due * 1_000_000)
            self._stored_ns.append((message["store_time_ms"] - due) * 1_000_000)
            self._after_send_ns.append(now_monotonic - sent - self._delay_ns)
            self._sent.add(sent)

    def answer(self) -> dict[str, Any]:
        early = sum(min(pair) < 0 for pair in zip(self._late_ns, self._stored_ns, strict=True))
        skipped = self._skipped
        return {
            "early": early,
            "distinct": len(self._sent),
            **latencies(self._late_ns[skipped:]),
            **latencies(self._stored_ns[skipped:], "stored_"),
            **latencies(self._after_send_ns[skipped:], "after_send_"),
        }


class Numbered:
    """When each was here, by its number."""

    def __init__(self) -> None:
        self._taken: list[tuple[int, int]] = []

    def add(self, messages: list[dict[str, Any]]) -> None:
        now = time.monotonic_ns()
        self._taken += [(stamped_ns(message["body"]), now) for message in messages]

    def answer(self) -> dict[str, Any]:
        return {"taken": self._taken}


def receive(polls: list[Poll], idle_s: float, expected: int, taken: Taken) -> int:
    """Take messages until none come for so long; how many."""
    by_socket: dict[socket.socket, Poll] = {poll.socket: poll for poll in polls}
    count = 0
    last = time.monotonic()
    while time.monotonic() - last < (idle_s if count < expected else min(idle_s, _DUPLICATES_S)):
        for ready in select.select(list(by_socket), [], [], 0.5)[0]:
            messages = by_socket[ready].take()
            if messages:
                taken.add(messages)
                count += len(messages)
                last = time.monotonic()
    return count


def start(url: str, topic: str, queues: int, idle_s: float, *options: str) -> subprocess.Popen[bytes]:
    """Start the process; it prints its JSON when it is done. Options as the command's."""
    command = [sys.executable, "-m", "benchmarks.receiver", url, topic, str(queues), "--idle-seconds", str(idle_s)]
    return subprocess.Popen([*command, *options], stdout=subprocess.PIPE)


def _main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("topic")
    parser.add_argument("queues", type=int)
    parser.add_argument("--idle-seconds", type=float, default=5)
    parser.add_argument("--expected", type=int, default=sys.maxsize)
    parser.add_argument("--skip", type=int, default=0, help="so many at the beginning are warm-up")
    parser.add_argument("--count-only", action="store_true")
    parser.add_argument("--delay-ms", type=int)
    parser.add_argument("--numbers", action="store_true")
    chosen = parser.parse_args()
    taken: Taken = Stamped(chosen.skip, not chosen.count_only)
    if chosen.delay_ms is not None:
        taken = Delayed(chosen.skip, chosen.delay_ms)
    elif chosen.numbers:
        taken = Numbered()
    polls = [Poll(chosen.url, chosen.topic, queue_id) for queue_id in range(chosen.queues)]
    count = receive(polls, chosen.idle_seconds, chosen.expected, taken)
    print(orjson.dumps({"received": count, **taken.answer()}).decode())


if __name__ == "__main__":
    _main()
