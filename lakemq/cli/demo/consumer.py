"""The demo's second process: consumes the flights with long polls, and checks their order.

`python -m lakemq.cli.demo.consumer URL TOPIC PARENT_PID`. It says how many it has consumed, a
JSON object a line. The line on its stdin is the number of flights produced, said when that is
over; it goes on to the end of each queue, says the `Outcome` and ends.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (pyarrow carries no types)

from __future__ import annotations

import dataclasses
import signal
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from threading import Event, Thread

import orjson

from lakemq.cli.demo.tally import Tally, total
from lakemq.cli.lifeline import end_with_parent
from lakemq.cli.output import fail, write_line
from lakemq.client.http import HttpClient
from lakemq.model.errors import LakemqError

WAIT_MS = 1_000
ROWS_PER_PULL_MAX = 5_000
REPORT_S = 0.1


def consume(url: str, topic: str) -> None:
    """Consume all queues of the topic at once, until all that was produced is consumed."""
    with HttpClient(url) as client:
        queues = [queue["queue_id"] for queue in client.topic(topic)["queues"]]
    tallies = [Tally() for _ in queues]
    produced = _Produced()
    with ThreadPoolExecutor(len(queues)) as pool:
        readers = [
            pool.submit(_consume_queue, url, topic, queue, tally, produced.is_known)
            for queue, tally in zip(queues, tallies, strict=True)
        ]
        pending = set(readers)
        while pending:
            done, pending = wait(readers, timeout=REPORT_S)
            _report({"consumed": sum(tally.consumed for tally in tallies)})
            if any(reader.exception() for reader in done):
                produced.is_known.set()  # one queue failed: the others need not wait for more
    for reader in readers:
        reader.result()
    _report(dataclasses.asdict(total(tallies, produced.count)))


class _Produced:
    """How many were produced, once stdin has said so."""

    def __init__(self) -> None:
        self.is_known = Event()
        self.count = 0
        Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        line = sys.stdin.readline().strip()
        self.count = int(line) if line else 0
        self.is_known.set()


def _consume_queue(url: str, topic: str, queue: int, tally: Tally, is_over: Event) -> None:
    offset = 0
    with HttpClient(url) as client:
        while True:
            was_over = is_over.is_set()
            pulled = client.pull_table(topic, queue, offset, ROWS_PER_PULL_MAX, WAIT_MS)
            if pulled.table.num_rows == 0 and was_over and pulled.next_offset >= pulled.max_offset:
                return
            bodies = pulled.table["body"].to_pylist()
            tails = pulled.table["ordering_key"].to_pylist()
            for body, tail in zip(bodies, tails, strict=True):
                tally.add(orjson.loads(body)["sequence"], tail)
            offset = pulled.next_offset


def _report(content: dict[str, int]) -> None:
    write_line(orjson.dumps(content).decode())
    sys.stdout.flush()


def main() -> int:
    """The process: its arguments are the gateway's URL, the topic and the parent's pid."""
    url, topic, parent_pid = sys.argv[1:]
    end_with_parent(int(parent_pid), signal.SIGKILL)
    try:
        consume(url, topic)
    except LakemqError as error:
        return fail(f"the consumer: {error.detail}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
