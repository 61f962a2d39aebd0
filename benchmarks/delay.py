"""How late scheduled messages are, with all jobs running: `python -m benchmarks.delay`.

200 single POSTs a second by level 1, then with a delay of 7.3 s; four queues with a long poll each.
p50_ms … are from `deliver_at_ms` until the receiver has the message, parsed; stored_… until it is
stored in its topic; after_send_… from when it was to be sent, plus the delay, until the receiver has
it, which is what the peers' harness counts. `early` is of all, warm-up included.
"""

from __future__ import annotations

import json
from typing import Any

from benchmarks import paced, receiver
from benchmarks.broker import make_topic, scratch
from benchmarks.cpu import Meter
from benchmarks.options import sizes
from benchmarks.results import emit, say
from benchmarks.routing import DEFAULT_LEAD_MS, routed

QUEUES = 4
LEVEL_1_MS = 1000
DELAY_MS = 7300
_SLOWEST_S = 20.0
"""A message that is so much later than those before it is taken for lost."""


def _measure(url: str, pids: list[int], name: str, delay_ms: int, header: dict[str, str], run: Any) -> None:
    rate, seconds, lead_ms = run
    warm_s = max(seconds / 6, 1)
    topic = f"delay-{delay_ms}"
    make_topic(url, topic, QUEUES)
    say(f"delay: {name}, lead {lead_ms} ms, {seconds} s")
    count = int(rate * (warm_s + seconds))
    options = ["--delay-ms", str(delay_ms), "--expected", str(count), "--skip", str(int(warm_s * rate))]
    with Meter(*pids) as meter:
        taker = receiver.start(url, topic, QUEUES, delay_ms / 1000 + _SLOWEST_S, *options)
        sender = paced.start(url, topic, rate, warm_s + seconds, **header)
        sent = json.loads(sender.communicate(timeout=warm_s + seconds + 60)[0])
        received = json.loads(taker.communicate(timeout=delay_ms / 1000 + _SLOWEST_S + 60)[0])
    settings = {"rate": rate, "seconds": seconds, "delay_ms": delay_ms, "lead_ms": lead_ms}
    settings |= {"queues": QUEUES, "body_bytes": paced.BODY_BYTES, "jobs": "all"}
    emit(f"delay, {name}, lead {lead_ms} ms", received["p50_ms"], "ms", settings, **received, **sent, **meter.spent())
    if received["early"]:
        raise RuntimeError(f"{received['early']} messages were early")
    if not received["received"] == received["distinct"] == sent["sent"]:
        raise RuntimeError(f"{sent['sent']} were sent, {received['distinct']} came, {received['received']} times")


def main() -> None:
    chosen = sizes(__doc__, rate=(200, 100), seconds=(60, 2), lead_0_seconds=(20, 2), warm_seconds=(10, 1))
    for lead_ms, seconds in ((DEFAULT_LEAD_MS, chosen.seconds), (0, chosen.lead_0_seconds)):
        if not seconds:
            continue
        with scratch() as folder, routed(folder, lead_ms, chosen.warm_seconds) as (process, jobs):
            pids, run = [process.pid, jobs.pid], (chosen.rate, seconds, lead_ms)
            _measure(process.url, pids, "level 1", LEVEL_1_MS, {"lakemq_delay_level": "1"}, run)
            _measure(process.url, pids, f"{DELAY_MS} ms", DELAY_MS, {"lakemq_delay_ms": str(DELAY_MS)}, run)


if __name__ == "__main__":
    main()
