"""What others feel while a client does harm: `python -m benchmarks.hostile [NAME …]`.

Each of the hostile clients works for some seconds in a process of its own, and meanwhile a well-behaved one
produces and pulls. Its p99 is to stay below 100 ms, and the gateway's memory below 600 MiB.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import multiprocessing
import socket
import threading
import time
from collections.abc import Callable
from urllib.parse import quote

from benchmarks.broker import gateway, make_topic, scratch
from benchmarks.cpu import peak_rss_bytes
from benchmarks.results import emit, latencies, say
from benchmarks.wire import ARROW, BadAnswer, Connection, ask, build, dial
from lakemq.gateway.decode.limits import JSON_VALUES_MAX

MIB = 1024 * 1024
PAUSE_S = 0.005
LONG = "long"
Stop = Callable[[], bool]


def fill(url: str) -> None:
    """A topic with much to read: 60,000 messages with long properties, 64 MiB of bodies."""
    make_topic(url, LONG, 1)
    value = "ab" * 250
    for _ in range(30):
        messages = [{"body": "x" * 1_000, "properties": {"p": value}} for _ in range(2_000)]
        ask(url, "POST", f"/v1/topics/{LONG}/messages", {"messages": messages})


def _repeat(url: str, stop: Stop, request: bytes, threads: int) -> None:
    def work() -> None:
        while not stop():
            with contextlib.suppress(OSError, BadAnswer):
                connection = Connection(url)
                while not stop():
                    connection.exchange(request)

    running = [threading.Thread(target=work, daemon=True) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


def like(url: str, stop: Stop) -> None:
    """A pattern that a regular expression takes long for."""
    pattern = quote("p LIKE '" + "%a_" * 65 + "%c'")
    _repeat(url, stop, build("GET", f"/v1/topics/{LONG}/queues/0/messages?offset=0&sql={pattern}"), 4)


def gzips(url: str, stop: Stop) -> None:
    """Small bodies that are large when inflated."""
    line = b'{"body":"' + b"x" * 4_000_000 + b'"}\n'
    body = gzip.compress(line * 16, 9)
    headers = {"content_type": "application/x-ndjson", "content_encoding": "gzip"}
    _repeat(url, stop, build("POST", "/v1/topics/gzips/messages", body, **headers), 16)


def small_messages(url: str, stop: Stop) -> None:
    """Bodies with as many messages as may be."""
    body = gzip.compress(b'{"body":""}\n' * 20_000, 6)
    headers = {"content_type": "application/x-ndjson", "content_encoding": "gzip"}
    _repeat(url, stop, build("POST", "/v1/topics/small/messages", body, **headers), 4)


def too_many_messages(url: str, stop: Stop) -> None:
    """Bodies with ten times as many."""
    body = gzip.compress(b'{"body":""}\n' * 200_000, 6)
    headers = {"content_type": "application/x-ndjson", "content_encoding": "gzip"}
    _repeat(url, stop, build("POST", "/v1/topics/small/messages", body, **headers), 4)


def json_values(url: str, stop: Stop) -> None:
    """One JSON document with as many values as are parsed, which is no request in the end."""
    body = gzip.compress(b'{"messages":[' + b"{}," * (JSON_VALUES_MAX // 2 - 10) + b"{}]}", 6)
    headers = {"content_type": "application/json", "content_encoding": "gzip"}
    _repeat(url, stop, build("POST", "/v1/topics/values/messages", body, **headers), 4)


def properties(url: str, stop: Stop) -> None:
    """As many messages with as many properties as may be."""
    given = ",".join([f'"{number}":"v"' for number in range(JSON_VALUES_MAX // 20_000 - 6)])
    message = '{"body":"b","keys":["k"],"properties":{' + given + "}}"
    body = gzip.compress(('{"messages":[' + ",".join([message] * 20_000) + "]}").encode(), 6)
    headers = {"content_type": "application/json", "content_encoding": "gzip"}
    _repeat(url, stop, build("POST", "/v1/topics/properties/messages", body, **headers), 4)


def slow_readers(url: str, stop: Stop) -> None:
    """Ask for a lot, and don't read it."""
    target = f"/v1/topics/{LONG}/queues/0/messages?offset=0&max=10000"
    log = "/v1/log/messages?from=0&to=100000&bytes_max=67108864"
    asked = [build("GET", target), build("GET", target, accept=ARROW), build("GET", log)]
    held: list[socket.socket] = []
    while not stop():
        with contextlib.suppress(OSError):
            connected = dial(url)
            connected.sendall(asked[len(held) % 3])
            held.append(connected)
        time.sleep(0.05)


def stalled_uploads(url: str, stop: Stop) -> None:
    """Send most of a large body, and then nothing more."""
    held: list[socket.socket] = []
    while not stop():
        with contextlib.suppress(OSError):
            connected = dial(url)
            connected.settimeout(0.5)
            held.append(connected)
            head = build("POST", "/v1/topics/stalled/messages", b"", content_type="application/json")
            connected.sendall(head.replace(b"Content-Length: 0", b"Content-Length: %d" % (64 * MIB)))
            for _ in range(60):
                connected.sendall(b" " * MIB)
        time.sleep(0.05)


def half_heads(url: str, stop: Stop) -> None:
    """Begin requests, and never end them; connect, and say nothing."""
    held: list[socket.socket] = []
    while not stop():
        with contextlib.suppress(OSError):
            connected = dial(url)
            if len(held) % 2:
                connected.sendall(b"POST /v1/topics/t/messages HTTP/1.1\r\nHost: loc")
            held.append(connected)
        time.sleep(0.002)


def pipelines(url: str, stop: Stop) -> None:
    """Send requests by the thousand without reading an answer."""
    request = build("GET", f"/v1/topics/{LONG}/queues/0/messages?offset=0&max=100") * 1_000
    held: list[socket.socket] = []
    while not stop():
        with contextlib.suppress(OSError):
            connected = dial(url)
            connected.settimeout(0.2)
            held.append(connected)
            connected.sendall(request)
        time.sleep(0.05)


def topics(url: str, stop: Stop) -> None:
    """Make topics and delete them."""
    number = 0
    while not stop():
        with contextlib.suppress(OSError, BadAnswer):
            connection = Connection(url)
            while not stop():
                number += 1
                name = f"/v1/topics/gone-{time.time_ns()}-{number}"
                connection.exchange(build("PUT", name, b'{"queues": 64}', content_type="application/json"))
                connection.exchange(build("DELETE", name))


CLIENTS: dict[str, Callable[[str, Stop], None]] = {
    each.__name__: each
    for each in (
        *(like, gzips, small_messages, too_many_messages, json_values, properties),
        *(slow_readers, stalled_uploads, half_heads, pipelines, topics),
    )
}


def _work(name: str, url: str, seconds: float) -> None:
    end = time.monotonic() + seconds
    CLIENTS[name](url, lambda: time.monotonic() > end)


def _behave(url: str, seconds: float) -> tuple[list[int], int]:
    """What a request took, in ns, and how many failed."""
    taken: list[int] = []
    failed = 0
    produce = build("POST", "/v1/topics/well/messages", b"x" * 100, content_type="text/plain")
    pull = build("GET", "/v1/topics/well/queues/0/messages?offset=0&max=10")
    end = time.monotonic() + seconds
    connection = Connection(url)
    while time.monotonic() < end:
        for request in (produce, pull):
            begin = time.perf_counter_ns()
            try:
                connection.exchange(request)
            except (OSError, BadAnswer) as error:
                failed += 1
                say(f"a well-behaved request failed: {error}")
                connection = Connection(url)
            taken.append(time.perf_counter_ns() - begin)
        time.sleep(PAUSE_S)
    connection.close()
    return taken, failed


def measure(name: str, seconds: float) -> None:
    """One hostile client, on a gateway of its own."""
    with scratch() as folder, gateway(folder / "data") as process:
        fill(process.url)
        make_topic(process.url, "well", 1)
        worker = multiprocessing.get_context("spawn").Process(target=_work, args=(name, process.url, seconds + 1))
        if name != "none":
            worker.start()
            time.sleep(1)
        taken, failed = _behave(process.url, seconds)
        memory = peak_rss_bytes(process.pid)
        figures = latencies(taken)
        settings = {"seconds": seconds, "requests": len(taken)}
        emit(
            f"beside {name}",
            figures["p99_ms"],
            "ms p99",
            settings,
            failed=failed,
            peak_rss_mib=memory // MIB,
            **figures,
        )
        if name != "none":
            worker.join(30)
            worker.kill()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(['none', *CLIENTS])}; all without")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--quick", action="store_true", help="a second each; the figures mean nothing")
    chosen = parser.parse_args()
    for each in chosen.names or ["none", *CLIENTS]:
        measure(each, 1 if chosen.quick else chosen.seconds)
