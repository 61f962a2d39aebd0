"""Pull from the start of the log, Arrow and JSON, 10,000 a request. `python -m benchmarks.pull`.

One connection goes round the topic's queues, or one a queue. `read` only takes the bytes; `parse`
makes Arrow batches, or Python objects, of them. The log is in the page cache: it was just written.
"""

from __future__ import annotations

import threading
import time

import orjson
import pyarrow as pa

from benchmarks.arrow_produce import produce, requests_of
from benchmarks.bodies import random_bodies
from benchmarks.broker import gateway, make_topic, scratch, wait_flushed
from benchmarks.cpu import Meter
from benchmarks.options import sizes
from benchmarks.results import emit, say
from benchmarks.wire import ARROW, Connection, Received, ask, build

QUEUES = 4


def _next_offset(answer: Received, media: str) -> int:
    if media == ARROW:
        return int(answer.header("lakemq-next-offset"))
    place = bytes(answer.body[:400]).index(b'"next_offset":') + len(b'"next_offset":')
    return int(bytes(answer.body[place : place + 20]).split(b",")[0])


def _parse(answer: Received, media: str) -> int:
    """The number of messages, from the parsed answer."""
    if media == ARROW:
        with pa.ipc.open_stream(pa.py_buffer(answer.body)) as stream:
            return sum(batch.num_rows for batch in stream)
    return len(orjson.loads(answer.body)["messages"])


def follow(url: str, queues: list[int], ends: dict[int, int], media: str, parsed: bool) -> int:
    """Pull these queues from their start to their end on one connection; how many messages."""
    connection = Connection(url)
    offsets = dict.fromkeys(queues, 0)
    count = 0
    while offsets:
        for queue_id in list(offsets):
            target = f"/v1/topics/arrow/queues/{queue_id}/messages?offset={offsets[queue_id]}&max=10000"
            answer = connection.exchange(build("GET", target, accept=media))
            following = _next_offset(answer, media)
            count += _parse(answer, media) if parsed else following - offsets[queue_id]
            offsets[queue_id] = following
            if following >= ends[queue_id]:
                del offsets[queue_id]
    connection.close()
    return count


def _measure(url: str, pid: int, ends: dict[int, int], media: str, parsed: bool, connections: int) -> None:
    shares = [list(ends)[number::connections] for number in range(connections)]
    counts: list[int] = []
    threads = [
        threading.Thread(target=lambda share=share: counts.append(follow(url, share, ends, media, parsed)))
        for share in shares
    ]
    with Meter(pid) as meter:
        begin = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.monotonic() - begin
    if sum(counts) != sum(ends.values()):
        raise RuntimeError(f"pulled {sum(counts)} of {sum(ends.values())} messages")
    form = "arrow" if media == ARROW else "json"
    settings = {
        "messages": sum(counts),
        "body_bytes": 1024,
        "connections": connections,
        "queues": QUEUES,
        "max": 10_000,
    }
    kind = "parse" if parsed else "read"
    emit(f"pull, {form}, {kind}", sum(counts) / seconds, "messages/s", settings, **meter.spent())


def main() -> None:
    chosen = sizes(__doc__, messages=(1_000_000, 8_000), rounds=(2, 1))
    with scratch() as folder, gateway(folder) as process:
        url = process.url
        make_topic(url, "arrow", QUEUES)
        say("pull: fill")
        produce(url, requests_of(random_bodies, 1024), chosen.messages, 2)
        wait_flushed(url)
        time.sleep(0 if chosen.quick else 5)
        ends = {queue["queue_id"]: queue["max_offset"] for queue in ask(url, "GET", "/v1/topics/arrow")["queues"]}
        for turn in range(chosen.rounds):
            for media in (ARROW, "application/json"):
                for parsed in (False, True):
                    for connections in (1, 2):
                        say(f"pull: round {turn + 1}, {media}, parsed {parsed}, {connections} connections")
                        _measure(url, process.pid, ends, media, parsed, connections)


if __name__ == "__main__":
    main()
