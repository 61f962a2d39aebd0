"""Kill a real gateway at random times under load, and check what it promised.

Quick form: `test_kill.py`. Long form: `python -m tests.storage.kill_run --seconds 600 --seed 7`.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import ssl
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pyarrow as pa

from lakemq.testing import GatewayProcess, start_gateway
from tests.as_administrator import AsAdministrator
from tests.reliability.fork_server import GATEWAY, ForkServer

TOPIC = "kill"
QUEUES = 4
PRODUCERS = 4
SIZES = (0, 10, 200, 200, 1_000, 20_000)
OPTIONS: dict[str, object] = {
    "storage__segment_bytes": 1024 * 1024,
    "storage__snapshot_bytes": 100_000,
    "storage__snapshot_interval_ms": 100,
    "storage__flush_interval_ms": 20,
}
ARROW = "application/vnd.apache.arrow.stream"
LOAD_S_MAX = 0.6
START_S_MAX = 0.3
"""Of a start by a fork server; one that takes longer is killed like the others."""
TLS = ssl.create_default_context()
"""Unused, but to make one takes longer than a gateway's start."""


class Place(NamedTuple):
    """Where a message is."""

    queue_id: int
    queue_offset: int
    position: int


class Request(NamedTuple):
    """One produce request: its bodies, each for a queue, and how it is sent."""

    form: str
    ack: str
    bodies: list[bytes]
    queue_ids: list[int]
    key: str | None


def _digest(body: bytes) -> bytes:
    return blake2b(body, digest_size=16).digest()


class Ledger:
    """What was asked for, what was promised, and what the log then held."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.asked: set[bytes] = set()
        self.promised: dict[bytes, Place] = {}
        self.new: dict[bytes, Place] = {}
        """Of `promised`: what no life has been asked for yet."""
        self.found: dict[bytes, Place] = {}
        self.unanswered: list[Request] = []
        self.answered: list[tuple[Request, list[Place]]] = []
        self.requests = 0

    def ask(self, request: Request) -> None:
        """Take note before the request is sent."""
        with self._lock:
            self.requests += 1
            self.asked.update(map(_digest, request.bodies))

    def promise(self, request: Request, places: list[Place]) -> None:
        """Take note of an answer."""
        with self._lock:
            told = dict(zip(map(_digest, request.bodies), places, strict=True))
            self.promised.update(told)
            self.new.update(told)
            if request.key is not None:
                self.answered.append((request, places))

    def doubt(self, request: Request) -> None:
        """Take note of a request that was not answered."""
        with self._lock:
            if request.key is not None:
                self.unanswered.append(request)


def _make_request(chance: random.Random, prefix: str) -> Request:
    form = chance.choice(("raw", "raw", "json", "arrow"))
    count = 1 if form == "raw" else chance.choice((1, 2, 10, 50))
    bodies = [f"{prefix}-{number} ".encode() + chance.randbytes(chance.choice(SIZES)) for number in range(count)]
    queue_ids = [chance.randrange(QUEUES) for _ in range(count)]
    key = prefix if chance.random() < 0.2 else None
    return Request(form, chance.choice(("async", "sync")), bodies, queue_ids, key)


def _send(client: httpx.Client, request: Request) -> list[Place]:
    """Send the request; where its messages are. Raises `httpx.HTTPError`."""
    headers = {} if request.key is None else {"Idempotency-Key": request.key}
    url = f"/v1/topics/{TOPIC}/messages?ack={request.ack}"
    if request.form == "raw":
        headers["Lakemq-Queue-Id"] = str(request.queue_ids[0])
        response = client.post(url, content=request.bodies[0], headers=headers)
    elif request.form == "json":
        messages = [
            {"body": body.hex(), "queue_id": queue_id}
            for body, queue_id in zip(request.bodies, request.queue_ids, strict=True)
        ]
        response = client.post(url, json={"messages": messages}, headers=headers)
    else:
        headers["Content-Type"] = ARROW
        response = client.post(url, content=_arrow(request), headers=headers)
    response.raise_for_status()
    answer = response.json()
    if request.form != "arrow":
        return [Place(m["queue_id"], m["queue_offset"], m["position"]) for m in answer["messages"]]
    return _places(request.queue_ids, answer)


def _arrow(request: Request) -> bytes:
    batch = pa.RecordBatch.from_pydict(
        {"body": pa.array(request.bodies, pa.binary()), "queue_id": pa.array(request.queue_ids, pa.int32())}
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def _places(queue_ids: Sequence[int], answer: dict[str, Any]) -> list[Place]:
    """Where the rows of an Arrow request are: of each queue in the order of the request."""
    nexts: dict[int, Place] = {}
    position = answer["first_position"]
    for found in answer["ranges"]:
        nexts[found["queue_id"]] = Place(found["queue_id"], found["first_queue_offset"], position)
        position += found["count"]
    places: list[Place] = []
    for queue_id in queue_ids:
        place = nexts[queue_id]
        places.append(place)
        nexts[queue_id] = Place(queue_id, place.queue_offset + 1, place.position + 1)
    return places


def _stored_bodies(request: Request) -> Request:
    """The request with its bodies as they are stored: JSON carries them as hexadecimal text."""
    if request.form != "json":
        return request
    return request._replace(bodies=[body.hex().encode() for body in request.bodies])


def _client(url: str) -> httpx.Client:
    return httpx.Client(base_url=url, trust_env=False, timeout=90, verify=TLS, auth=AsAdministrator())


class KillRun:
    """Round after round: load, kill, restart, check. `check` raises `AssertionError`."""

    def __init__(self, data_dir: Path, seed: int, forks: ForkServer) -> None:
        self._data_dir = data_dir
        self._chance = random.Random(seed)
        self._seed = seed
        self._forks = forks
        self.ledger = Ledger()
        self.rounds = 0
        self.kills = 0
        self.checked_position = 0

    def round(self) -> None:
        """One life of the gateway, and the check of all former ones."""
        self.rounds += 1
        gateway = self._start()
        try:
            with _client(gateway.url) as client:
                client.put(f"/v1/topics/{TOPIC}", json={"queues": QUEUES}).raise_for_status()
                self.check(client)
                self._repeat(client)
            self._load(gateway)
        finally:
            gateway.kill()
            self.kills += 1
        while self._chance.random() < 0.5:
            self._kill_while_starting()

    def _start(self) -> GatewayProcess:
        return start_gateway(self._data_dir, spawn=self._forks.popen, **OPTIONS)

    def _load(self, gateway: GatewayProcess) -> None:
        threads = [
            threading.Thread(target=self._produce, args=(gateway.url, number, self._chance.randrange(2**32)))
            for number in range(PRODUCERS)
        ]
        for thread in threads:
            thread.start()
        time.sleep(self._chance.uniform(0, LOAD_S_MAX))
        gateway.kill()
        for thread in threads:
            thread.join()

    def _produce(self, url: str, number: int, seed: int) -> None:
        chance = random.Random(seed)
        with _client(url) as client:
            for count in range(1_000_000):
                request = _make_request(chance, f"{self._seed}.{self.rounds}.{number}.{count}")
                self.ledger.ask(_stored_bodies(request))
                try:
                    places = _send(client, request)
                except httpx.TransportError:
                    self.ledger.doubt(request)
                    return
                self.ledger.promise(_stored_bodies(request), places)

    def _repeat(self, client: httpx.Client) -> None:
        """Send requests with a key again: those answered must be answered the same, all stored once."""
        answered, self.ledger.answered = self.ledger.answered, []
        for request, places in self._chance.sample(answered, min(len(answered), 5)):
            plain = request
            if request.form == "json":
                plain = request._replace(bodies=[bytes.fromhex(body.decode()) for body in request.bodies])
            assert _send(client, plain) == places, f"request {request.key} was answered differently"
        unanswered, self.ledger.unanswered = self.ledger.unanswered, []
        for request in unanswered:
            places = _send(client, request)
            self.ledger.promise(_stored_bodies(request), places)

    def _kill_while_starting(self) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LAKEMQ_")}
        environment |= {"LAKEMQ_GATEWAY__PORT": "0", "LAKEMQ_STORAGE__DATA_DIR": str(self._data_dir)}
        environment |= {f"LAKEMQ_{name.upper()}": str(value) for name, value in OPTIONS.items()}
        process = self._forks.popen([sys.executable, "-m", "lakemq.gateway"], environment)
        time.sleep(self._chance.uniform(0, START_S_MAX))
        process.kill()
        _, said = process.communicate()
        assert "Traceback" not in said, said
        assert process.poll() == -signal.SIGKILL, f"a start ended by itself: {said}"
        self.kills += 1

    def check(self, client: httpx.Client) -> None:
        """Read what is new in the log since the last check, and compare it with the ledger."""
        end = client.get("/v1/log/end").raise_for_status().json()["end_position"]
        assert end >= self.checked_position, "the log became shorter than it was at the last check"
        self.checked_position = self._read(client, self.checked_position, end, self.ledger.found)
        new, self.ledger.new = self.ledger.new, {}
        self._compare(new, self.ledger.found)

    def check_all(self) -> None:
        """Start once more, read the whole log from its beginning, and compare all of it."""
        with self._start() as gateway, _client(gateway.url) as client:
            self.check(client)
            found: dict[bytes, Place] = {}
            self._read(client, 0, self.checked_position, found)
            assert found == self.ledger.found
            self._compare(self.ledger.promised, found)

    def _compare(self, promised: dict[bytes, Place], found: dict[bytes, Place]) -> None:
        for digest, place in promised.items():
            assert found.get(digest) == place, f"promised at {place}, found at {found.get(digest)}"

    def _read(self, client: httpx.Client, begin: int, end: int, found: dict[bytes, Place]) -> int:
        """Read positions `begin ≤ p < end`; returns `end`."""
        at = begin
        while at < end:
            query = {"from": at, "to": end, "columns": "topic,queue_id,queue_offset,position,body"}
            response = client.get("/v1/log/messages", params=query).raise_for_status()
            table = pa.ipc.open_stream(response.content).read_all()
            after = int(response.headers["Lakemq-Next-Position"])
            positions = table.column("position").to_pylist()
            assert positions == list(range(at, after)), f"positions {at} to {after} are not dense"
            rows = zip(
                table.column("topic").to_pylist(),
                table.column("queue_id").to_pylist(),
                table.column("queue_offset").to_pylist(),
                positions,
                table.column("body").to_pylist(),
                strict=True,
            )
            for topic, queue_id, offset, position, body in rows:
                if topic == TOPIC:
                    self._enter(found, Place(queue_id, offset, position), body)
            at = after
        return end

    def _enter(self, found: dict[bytes, Place], place: Place, body: bytes) -> None:
        digest = _digest(body)
        assert digest in self.ledger.asked, f"nobody ever sent the message at {place}"
        assert digest not in found, f"stored twice: at {found[digest]} and at {place}"
        found[digest] = place


def run(data_dir: Path, seconds: float, seed: int, rounds_min: int = 3) -> KillRun:
    """Kill and check for about that long, at least so many times, and until something was promised."""
    with ForkServer(*GATEWAY) as forks:
        kill_run = KillRun(data_dir, seed, forks)
        end = time.monotonic() + seconds
        while kill_run.rounds < rounds_min or time.monotonic() < end or not kill_run.ledger.promised:
            kill_run.round()
        kill_run.check_all()
    return kill_run


def main() -> None:
    """The long form, from a terminal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    arguments = parser.parse_args()
    sys.stdout.write(f"seed {arguments.seed}\n")
    with tempfile.TemporaryDirectory(prefix="lakemq-kill-") as directory:
        done = run(Path(directory), arguments.seconds, arguments.seed)
    sys.stdout.write(
        f"{done.kills} kills, {done.ledger.requests} requests, {len(done.ledger.promised)} messages promised, "
        f"{len(done.ledger.found)} found: each promise is kept, nothing is there twice\n"
    )


if __name__ == "__main__":
    main()
