"""Malformed requests against a gateway, over bare sockets.

`python -m tests.web.fuzz --seconds N --seed S`: valid requests with faults in them, split and
cut at random. Whatever is sent, the answer is no 500, and the gateway goes on. A failure names the
seed and round that make it again.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

from lakemq.testing import GatewayProcess, start_gateway
from tests.gateway.decode.fuzz import MUTATIONS, arrow_requests, other_requests
from tests.gateway.http_client import Answer, Connection, check_problem

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
ALLOWED_5XX = {503: {"busy", "store_unwritable"}, 504: {"request_timeout"}}
ROUND_S_MAX = 60.0
TARGETS = (
    "/v1/topics/{}/messages",
    "/v1/topics/{}/messages?ack=sync",
    "/v1/topics/{}/queues/0/messages?offset=0&max=3&wait_ms=0&tags=T&sql=a%3E5",
    "/v1/topics/{}/queues/0/offset?timestamp_ms=0",
    "/v1/topics/{}",
    "/v1/topics",
    "/v1/messages/broker-a.0123456789ab-1.3",
    "/v1/groups",
    "/v1/groups/g/members?generation=0&wait_ms=0",
    "/v1/groups/g/locks",
    "/v1/topics/{}/requests?timeout_ms=1",
    "/v1/replies/messages",
    "/v1/broker",
    "/v1/broker/compacted",
    "/v1/log/end?from=0&max=10&topics=fuzz",
    "/v1/log/messages?from=0&to=10&columns=topic,position&pattern=f.*",
    "/v1/log/position?timestamp_ms=0",
    "/healthz",
    "/readyz",
    "/metrics",
    "/openapi.json",
)
METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "CONNECT", "get", "")
SCRAPS = (
    b"%00", b"%", b"%zz", b"%ff", b"%2f", b"..", b"//", b"\x00", b"\xff", "ü".encode(), b"9" * 30, b"-1", b"1e9",
    b"&&", b"=", b"?", b"#", b";", b'"', b"\\", b" ", b"\r\n", b"\n", b"a" * 5_000, b"[", b"{}", b"*", b"||", b"0x1",
)  # fmt: skip
HEADERS = (
    b"Accept: application/vnd.apache.arrow.stream", b"Accept: ,;q=,*/*;q=x", b"Idempotency-Key: k",
    b"Idempotency-Key: " + b"k" * 300, b"Lakemq-Tag: \xff", b"Lakemq-Queue-Id: 99999999999999999999",
    b"Lakemq-Delay-Level: 3", b"Lakemq-Keys: ,,,", b"Lakemq-Property-: x", b"Content-Encoding: gzip",
    b"Content-Encoding: deflate, gzip", b"Expect: 100-continue", b"Expect: x", b"Connection: close",
    b"Connection: Upgrade\r\nUpgrade: websocket", b"Content-Type: ", b"Content-Type: application/json; charset=x",
    b"ce-specversion: 1.0", b"ce-id: %", b"Host: [", b"Transfer-Encoding: chunked", b"Content-Length: 5",
    b"Range: bytes=0-", b"Cookie: \x01", b"X-Long: " + b"x" * 30_000, b": no name", b"no colon",
)  # fmt: skip


def make_request(random: Random) -> bytes:
    """A request, most likely a bad one."""
    decoded = random.choice(CORPUS)
    body = bytearray(decoded.body)
    for _ in range(random.choice((0, 0, 1, 2))):
        random.choice(MUTATIONS)(random, body, random.choice(CORPUS).body)
    if random.random() < 0.2:
        body = bytearray(random.choice((b"", b"{}", b"[]", b'{"queues": 2}', b'{"compacted_position": 1}', b"\xff")))
    target = random.choice(TARGETS).format(random.choice(("fuzz", "fuzz-2", "%25RETRY%25g", "RMQ_SYS_TOPICS", "")))
    method = random.choice(METHODS) if random.random() < 0.3 else ("POST" if "messages" in target else "GET")
    lines = [f"{method} ".encode() + spoil(random, target.encode()) + b" HTTP/1.1", b"Host: localhost"]
    if decoded.content_type and random.random() < 0.9:
        lines.append(f"Content-Type: {decoded.content_type}".encode())
    lines += [f"{name}: {value}".encode() for name, value in decoded.headers.items()]
    lines += [random.choice(HEADERS) for _ in range(random.choice((0, 0, 1, 3)))]
    framing = random.random()
    if framing < 0.2:
        lines.append(b"Transfer-Encoding: chunked")
        body = bytearray(chunk(random, bytes(body)))
    elif framing < 0.95:
        lines.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join([*lines, b"", bytes(body)])


def spoil(random: Random, target: bytes) -> bytes:
    """The target, now and then with something in it that doesn't belong there."""
    while random.random() < 0.4:
        at = random.randrange(len(target) + 1)
        target = target[:at] + random.choice(SCRAPS) + target[at + random.randrange(3) :]
    return target


def chunk(random: Random, body: bytes) -> bytes:
    """The body in chunks, some of them not what they say."""
    pieces: list[bytes] = []
    while body:
        size = random.randrange(1, len(body) + 1)
        said = size if random.random() < 0.9 else random.choice((0, size + 1, 2**70))
        pieces.append(b"%x%s\r\n%s\r\n" % (said, random.choice((b"", b"", b";a=b")), body[:size]))
        body = body[size:]
    return b"".join([*pieces, random.choice((b"0\r\n\r\n", b"0\r\nx: y\r\n\r\n", b"x\r\n", b""))])


def check(answer: Answer, is_head: bool) -> None:
    """Assert that the answer is one that the contract allows."""
    if answer.status >= 400 and not is_head:
        check_problem(answer.status, answer.headers, answer.body)
    if answer.status >= 500:
        allowed = ALLOWED_5XX.get(answer.status, set())
        assert not is_head or allowed, answer
        assert is_head or json.loads(answer.body)["code"] in allowed, answer


def run_round(gateway: GatewayProcess, seed: int, number: int, statuses: Counter[int]) -> None:
    """One connection: some requests, sent in some way; then the gateway must be in good health."""
    random = Random(f"{seed}:{number}")
    requests = [make_request(random) for _ in range(random.choice((1, 1, 1, 2, 5)))]
    data = b"".join(requests)
    if random.random() < 0.1:
        data = data[: random.randrange(len(data) + 1)]
    with Connection(gateway) as connection:
        connection.socket.settimeout(ROUND_S_MAX)
        try:
            send(random, connection, data)
            connection.half_close()
        except ConnectionError:
            pass  # it has closed the connection already
        is_head = any(request.startswith(b"HEAD") for request in requests)
        if not is_head:  # where one of several answers has no body, there is no telling where the next begins
            while (answer := connection.answer()) is not None:
                statuses[answer.status] += 1
                check(answer, is_head)
    with Connection(gateway) as connection:
        connection.socket.settimeout(ROUND_S_MAX)
        connection.send(HEALTH)
        answer = connection.answer()
        assert answer is not None
        assert answer.status == 200


def send(random: Random, connection: Connection, data: bytes) -> None:
    """Send the data in one piece or in several."""
    while data:
        size = len(data) if random.random() < 0.6 else random.randrange(1, len(data) + 1)
        connection.send(data[:size])
        data = data[size:]


def fuzz(gateway: GatewayProcess, seed: int, rounds: range, seconds: float) -> Counter[int]:
    """Rounds until the time is over; how often each status was answered."""
    statuses: Counter[int] = Counter()
    end = time.monotonic() + seconds
    for number in rounds:
        if time.monotonic() > end:
            break
        try:
            run_round(gateway, seed, number, statuses)
        except Exception as error:
            again = f"--seed {seed} --start {number}"
            raise AssertionError(f"again: python -m tests.web.fuzz {again}\n{''.join(gateway.log)}") from error
    return statuses


CORPUS = [*arrow_requests()[:12], *other_requests()]


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.web.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="stop after this time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0, help="the first round")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, start_gateway(Path(folder)) as gateway:
        statuses = fuzz(gateway, arguments.seed, range(arguments.start, 2**62), arguments.seconds)
    if any("Traceback" in line for line in gateway.log):
        sys.stderr.write("".join(gateway.log))
        return 1
    sys.stdout.write(f"{sum(statuses.values())} answers: {dict(sorted(statuses.items()))}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
