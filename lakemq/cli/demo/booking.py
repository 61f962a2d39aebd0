"""A booking as a transaction whose producer dies before it has said how it ends.

`python -m lakemq.cli.demo.booking URL PARENT_PID` is that producer: it begins the transaction, says
its id, and waits to be killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

import orjson

from lakemq.cli.lifeline import end_with_parent
from lakemq.cli.output import fail, write_line
from lakemq.client.http import HttpClient
from lakemq.model.errors import LakemqError
from lakemq.model.message import Draft

TOPIC = "bookings"
GROUP = "booking"
CHECK_S_MAX = 60.0
WAIT_MS = 5_000


@dataclass(frozen=True)
class Booking:
    """What became of the transaction."""

    transaction_id: str
    seen_open: int
    """Messages that a consumer saw while the transaction was open."""
    check_times: int
    check_s: float
    """From the producer's death until another client was asked."""
    seen_committed: int
    visible_ms: float
    """From the commit's request until a consumer had the message."""


def book(url: str) -> Booking:
    """Begin a booking in a process that is killed, answer the check for it, and consume it."""
    with HttpClient(url) as client:
        client.create_topic(TOPIC, 1)
        transaction_id = _begin_and_die(url)
        died_s = time.monotonic()
        check_times = 0
        while check_times == 0 and time.monotonic() - died_s < CHECK_S_MAX:
            for check in client.checks(GROUP, "another-desk", WAIT_MS):
                if check.transaction_id == transaction_id:
                    check_times = check.check_times
        check_s = time.monotonic() - died_s
        seen_open = len(client.pull(TOPIC, 0, 0).messages)
        begin_s = time.monotonic()
        client.resolve(transaction_id, GROUP, "commit")
        messages = client.pull(TOPIC, 0, 0, wait_ms=WAIT_MS).messages
        visible_ms = (time.monotonic() - begin_s) * 1000
    committed = sum(message.transaction_id == transaction_id for message in messages)
    return Booking(transaction_id, seen_open, check_times, check_s, committed, visible_ms)


def _begin_and_die(url: str) -> str:
    """A transaction's id, of a producer that is dead."""
    command = [sys.executable, "-m", "lakemq.cli.demo.booking", url, str(os.getpid())]
    with subprocess.Popen(command, stdout=subprocess.PIPE, process_group=0) as producer:  # noqa: S603  (our own module)
        line = producer.stdout.readline() if producer.stdout is not None else b""
        producer.kill()
    transaction_id = line.decode().strip()
    if not transaction_id:
        raise LakemqError("the demo's producer of bookings ended before it had begun one")
    return transaction_id


def main() -> int:
    """The producer that dies: its arguments are the gateway's URL and the parent's pid."""
    url, parent_pid = sys.argv[1:]
    end_with_parent(int(parent_pid), signal.SIGKILL)
    booking = Draft(orjson.dumps({"passenger": "Ada", "flight": "UA1545"}), keys=["Ada"])
    try:
        with HttpClient(url) as client:
            (begun,) = client.begin_transactions(TOPIC, GROUP, [booking])
            write_line(begun.transaction_id)
            sys.stdout.flush()
            signal.pause()
    except LakemqError as error:
        return fail(f"the producer of bookings: {error.detail}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
