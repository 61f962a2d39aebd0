"""The demo's second process: a `PushConsumer` of the flights, which checks their order.

`python -m lakemq.cli.demo.consumer URL TOPIC PARENT_PID`. It says how many it has consumed, a
JSON object a line. The line on its stdin is the number of flights produced, said when that is
over; it goes on until it has consumed as many, says the `Outcome` and ends.
"""

from __future__ import annotations

import dataclasses
import signal
import sys
import time
from collections import defaultdict
from threading import Event, Thread

import orjson

from lakemq.cli.demo.tally import Tally, total
from lakemq.cli.lifeline import end_with_parent
from lakemq.cli.output import fail, write_json
from lakemq.client import MessageView, PushConsumer
from lakemq.model.errors import LakemqError

GROUP = "demo"
REPORT_S = 0.1
QUIET_S_MAX = 30.0
"""What has not come so long after production ended is missing."""


def consume(url: str, topic: str) -> None:
    """Consume the topic until all that was produced is consumed."""
    tallies: defaultdict[int, Tally] = defaultdict(Tally)

    def listen(message: MessageView) -> None:
        tallies[message.queue_id].add(orjson.loads(message.body)["sequence"], message.ordering_key)

    produced = _Produced()
    with PushConsumer(GROUP, listen, brokers=url, orderly=True, consume_from="first") as consumer:
        consumer.subscribe(topic)
        consumed, moved_s = 0, time.monotonic()
        while not produced.is_known.is_set() or consumed < produced.count:
            time.sleep(REPORT_S)
            before, consumed = consumed, sum(tally.consumed for tally in list(tallies.values()))
            if consumed != before or not produced.is_known.is_set():
                moved_s = time.monotonic()
            elif time.monotonic() - moved_s > QUIET_S_MAX:
                break
            _report({"consumed": consumed})
    _report(dataclasses.asdict(total(tallies.values(), produced.count)))


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


def _report(content: dict[str, int]) -> None:
    write_json(content)
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
