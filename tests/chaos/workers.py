"""What clients do all at once: each worker is one thread's program, one step after the other."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from lakemq.testing.history import make_payload, name_of_payload
from tests.chaos.caller import PAUSE_S, Caller, promised, row_of

TOPIC, DELAYED, TRANSACTED, RECEIVED, SUNK = "load", "later", "pairs", "work", "sunk"
QUEUES = 4
SIZES = (0, 60, 200, 1_000, 1_000, 20_000)
GROUP = "workers"
ATTEMPTS_MAX = 2
ARROW = {"Content-Type": "application/vnd.apache.arrow.stream"}
DELAY_MS_MAX = 1_500
RETRY_MS = 1_000
"""Of level 1."""
INVISIBLE_MS = (600_000, 600_000, 600_000, 300)
LEFT = 0.15
"""So many transactions and receipts are left to another client, or for ever."""


class Worker:
    """`step` is called until the run is over."""

    def __init__(self, caller: Caller, chance: random.Random) -> None:
        self.caller = caller
        self.recorder = caller.recorder
        self.chance = chance
        self._made = 0

    def step(self) -> None:
        """Do one thing."""
        raise NotImplementedError

    def close(self) -> None:
        """Leave no connection open."""
        self.caller.close()

    def bodies(self, count: int) -> tuple[list[str], list[str]]:
        """New payloads: their texts and their names."""
        texts: list[str] = []
        for _ in range(count):
            self._made += 1
            texts.append(make_payload(f"{self.caller.name}.{self._made}", self.chance.choice(SIZES)).decode())
        return texts, [name_of_payload(text.encode()) or "" for text in texts]

    def ack(self) -> str:
        """How a message is to be stored: `sync` is as good as on disk."""
        return "sync" if self.caller.target.flush == "sync" else self.chance.choice(("async", "async", "sync"))

    def invoke(self, kind: str, **request: Any) -> int:
        """Take note of what is about to be asked for."""
        return self.recorder.invoke(self.caller.name, kind, **request)


class Producer(Worker):
    """Raw, JSON and Arrow; async and sync; pinned queues, ordering keys, keys of idempotence."""

    def step(self) -> None:
        form = self.chance.choice((self._raw, self._json, self._arrow))
        form(self.ack())

    def _raw(self, ack: str) -> None:
        texts, names = self.bodies(1)
        key = self.chance.choice((None, f"key-{self.chance.randrange(20)}"))
        headers = {} if key is None else {"Lakemq-Ordering-Key": key}
        number = self.invoke("produce", topic=TOPIC, ack=ack, payloads=names, ordering_key=key)
        self._post(number, ack, names, content=texts[0], headers=headers)

    def _json(self, ack: str) -> None:
        texts, names = self.bodies(self.chance.choice((1, 2, 10)))
        number = self.invoke("produce", topic=TOPIC, ack=ack, payloads=names)
        content = {"messages": [{"body": text, "queue_id": self.chance.randrange(QUEUES)} for text in texts]}
        headers = {"Idempotency-Key": names[0]}
        if self._post(number, ack, names, json=content, headers=headers) or self.chance.random() < 0.5:
            return
        # Nobody knows, so it is asked for again, with the same key: it must not be there twice.
        again = self.invoke("produce", topic=TOPIC, ack=ack, payloads=names)
        self._post(again, ack, names, json=content, headers=headers)

    def _post(self, number: int, ack: str, names: list[str], **options: Any) -> bool:
        response = self.caller.ask(number, "POST", f"/v1/topics/{TOPIC}/messages", params={"ack": ack}, **options)
        if response is not None:
            self.recorder.ok(number, rows=promised(TOPIC, response.json()["messages"], names))
        return response is not None

    def _arrow(self, ack: str) -> None:
        texts, names = self.bodies(self.chance.choice((1, 20, 100)))
        queue_id = self.chance.randrange(QUEUES)
        number = self.invoke("produce", topic=TOPIC, ack=ack, payloads=names)
        path = f"/v1/topics/{TOPIC}/messages"
        content = arrow(texts, queue_id)
        response = self.caller.ask(number, "POST", path, params={"ack": ack}, content=content, headers=ARROW)
        if response is None:
            return
        answer = response.json()
        first, offset = answer["first_position"], answer["ranges"][0]["first_queue_offset"]
        rows = [[TOPIC, queue_id, offset + at, first + at, name] for at, name in enumerate(names)]
        self.recorder.ok(number, rows=rows)


def arrow(texts: list[str], queue_id: int) -> bytes:
    """An Arrow stream of these bodies for one queue."""
    columns = {"body": pa.array([text.encode() for text in texts], pa.binary())}
    columns["queue_id"] = pa.array([queue_id] * len(texts), pa.int32())
    batch = pa.RecordBatch.from_pydict(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


class Delayer(Worker):
    """Messages for later, to the millisecond of the broker's clock."""

    def step(self) -> None:
        probe = self.invoke("broker")
        response = self.caller.ask(probe, "GET", "/v1/broker")
        if response is None:
            return
        self.recorder.ok(probe)
        texts, names = self.bodies(self.chance.choice((1, 5)))
        due_ms = self.caller.target.now_ms() + self.chance.randrange(200, DELAY_MS_MAX)
        ack = self.ack()
        number = self.invoke("produce", topic=DELAYED, ack=ack, payloads=names, deliver_at_ms=due_ms)
        content = {"messages": [{"body": text, "deliver_at_ms": due_ms} for text in texts]}
        path = f"/v1/topics/{DELAYED}/messages"
        answer = self.caller.ask(number, "POST", path, params={"ack": ack}, json=content)
        if answer is not None:
            # The places in the answer are of where it waits, or of its topic when it was due already.
            self.recorder.ok(number, message_ids=[each["message_id"] for each in answer.json()["messages"]])


class Transactor(Worker):
    """Halves, each committed or rolled back; some are left to others."""

    def step(self) -> None:
        texts, names = self.bodies(1)
        ack = self.ack()
        half = self.invoke("half", topic=TRANSACTED, ack=ack, payloads=names)
        path = f"/v1/topics/{TRANSACTED}/transactions"
        query = {"producer_group": "pg", "ack": ack}
        response = self.caller.ask(half, "POST", path, params=query, content=texts[0])
        if response is None:
            return
        (begun,) = response.json()["transactions"]
        self.recorder.ok(half, transaction_ids=[begun["transaction_id"]], message_ids=[begun["message_id"]])
        if self.chance.random() < LEFT:
            self.caller.target.left.transactions.append((names[0], begun["transaction_id"]))
        else:
            resolve(self, names[0], begun["transaction_id"])


def resolve(worker: Worker, payload: str, transaction_id: str) -> None:
    """Commit or roll back a transaction, as often as it takes."""
    resolution = worker.chance.choice(("commit", "commit", "rollback"))
    for _ in range(20):
        ack = worker.ack()
        number = worker.invoke("resolve", topic=TRANSACTED, ack=ack, payload=payload, resolution=resolution)
        content = {"producer_group": "pg", "resolution": resolution}
        path = f"/v1/transactions/{transaction_id}"
        answer = worker.caller.send(number, "POST", path, params={"ack": ack}, json=content)
        if answer is not None and answer.is_success:
            worker.recorder.ok(number)
            return
        if answer is not None:
            worker.caller.refuse(number, answer)
        if worker.caller.target.stopping.is_set() or (answer is not None and answer.status_code == 404):
            return
        time.sleep(PAUSE_S)


class Receiver(Worker):
    """Produces to a topic and receives from it; acknowledges most, gives some back at once, leaves some to others,
    and lets some run out."""

    def step(self) -> None:
        texts, names = self.bodies(self.chance.choice((0, 3)))
        if texts:
            ack = self.ack()
            made = self.invoke("produce", topic=RECEIVED, ack=ack, payloads=names)
            content: dict[str, Any] = {"messages": [{"body": text} for text in texts]}
            path = f"/v1/topics/{RECEIVED}/messages"
            answer = self.caller.ask(made, "POST", path, params={"ack": ack}, json=content)
            if answer is not None:
                self.recorder.ok(made, rows=promised(RECEIVED, answer.json()["messages"], names))
        terms = {"invisible_ms": self.chance.choice(INVISIBLE_MS), "max_reconsume_times": ATTEMPTS_MAX}
        number = self.invoke("receive", group=GROUP, ack=self.caller.target.flush, **terms)
        content = {"topic": RECEIVED, "max": 5, "wait_ms": 200, **terms}
        answer = self.caller.ask(number, "POST", f"/v1/groups/{GROUP}/receive", json=content)
        if answer is not None:
            messages: list[dict[str, Any]] = answer.json()["messages"]
            told = {
                "rows": [_received(each) for each in messages],
                "receipts": [each["receipt"] for each in messages],
                "until_ms": min((each["invisible_until_ms"] for each in messages), default=None),
            }
            self.recorder.ok(number, **told)
            for message in messages:
                self._settle(message)

    def _settle(self, message: dict[str, Any]) -> None:
        payload = name_of_payload(message["body"].encode()) or ""
        if self.chance.random() < LEFT:
            self.caller.target.left.receipts.append((payload, message["receipt"]))
        elif self.chance.random() < 0.7:
            acknowledge(self, payload, message["receipt"])
        elif self.chance.random() < 0.5:
            self._give_back(payload, message)
        else:
            self._give_back_now(payload, message)

    def _give_back(self, payload: str, message: dict[str, Any]) -> None:
        number = self._nack(payload, message, RETRY_MS)
        nacked = {"receipt": message["receipt"], "delay_level": 1, "max_reconsume_times": ATTEMPTS_MAX}
        content = {"client_id": self.caller.name, "messages": [nacked]}
        answer = self.caller.ask(number, "POST", f"/v1/groups/{GROUP}/nacks", json=content)
        if answer is not None:
            end_by_status(self, number, answer.json()["messages"][0]["status"])

    def _give_back_now(self, payload: str, message: dict[str, Any]) -> None:
        number = self._nack(payload, message, 0)
        content = {"receipt": message["receipt"], "invisible_ms": 0}
        if self.caller.ask(number, "POST", f"/v1/groups/{GROUP}/invisibility", json=content) is not None:
            self.recorder.ok(number)

    def _nack(self, payload: str, message: dict[str, Any], delay_ms: int) -> int:
        target, times = self.caller.target, message["reconsume_times"]
        request = {"payloads": [payload], "receipts": [message["receipt"]], "reconsume_times": times}
        return self.invoke("nack", group=GROUP, ack=target.flush, due_ms=target.now_ms() + delay_ms, **request)


def acknowledge(worker: Worker, payload: str, receipt: str) -> None:
    """Acknowledge a message by a receipt of it."""
    ack = worker.caller.target.flush
    number = worker.invoke("ack", group=GROUP, ack=ack, payloads=[payload], receipts=[receipt])
    answer = worker.caller.ask(number, "POST", f"/v1/groups/{GROUP}/acks", json={"receipts": [receipt]})
    if answer is not None:
        end_by_status(worker, number, answer.json()["receipts"][0]["status"])


def end_by_status(worker: Worker, number: int, status: str) -> None:
    """What the answer says of the one message that it is about."""
    worker.recorder.end(number, "ok" if status == "ok" else "failed", status=status)


class Latecomer(Worker):
    """Ends what others, mostly of lives before, have left: it may have been lost, or be over."""

    def step(self) -> None:
        left = self.caller.target.left
        if left.receipts and self.chance.random() < 0.5:
            acknowledge(self, *self._take(left.receipts))
        elif left.transactions:
            resolve(self, *self._take(left.transactions))
        else:
            time.sleep(PAUSE_S)

    def _take(self, some: list[tuple[str, str]]) -> tuple[str, str]:
        return some.pop(self.chance.randrange(len(some)))


def _received(message: dict[str, Any]) -> list[Any]:
    """A message that was received: a retry names its real topic, and its place in the retry topic."""
    again = message["reconsume_times"] > 0
    return row_of(message | {"topic": f"%RETRY%{GROUP}"} if again else message)


class Consumer(Worker):
    """Pulls a queue from its beginning, commits, and after doubt begins where the group's offset is."""

    def __init__(self, caller: Caller, chance: random.Random, queue_id: int) -> None:
        super().__init__(caller, chance)
        self._queue: dict[str, Any] = {"topic": TOPIC, "queue_id": queue_id}
        self._path = f"/v1/topics/{TOPIC}/queues/{queue_id}/messages"
        self._offset: int | None = None

    def step(self) -> None:
        if self._offset is None:
            self._offset = self._read_offset()
            return
        pull = self.invoke("pull", begin=self._offset, **self._queue)
        query = {"offset": self._offset, "max": 200, "wait_ms": 100}
        answer = self.caller.ask(pull, "GET", self._path, params=query)
        if answer is None:
            self._offset = None
            return
        found = answer.json()
        if found["status"] == "offset_out_of_range":
            self.recorder.end(pull, "failed")
        else:
            rows = [row_of(message) for message in found["messages"]]
            self.recorder.ok(pull, rows=rows, end=found["next_offset"], holes=found.get("holes", []))
        self._offset = found["next_offset"]
        self._commit(found["next_offset"])

    def _commit(self, offset: int) -> None:
        ack = self.caller.target.flush
        number = self.invoke("commit_offset", group=GROUP, ack=ack, offset=offset, **self._queue)
        content = {"offsets": [{**self._queue, "offset": offset}]}
        if self.caller.ask(number, "PUT", f"/v1/groups/{GROUP}/offsets", json=content) is not None:
            self.recorder.ok(number)

    def _read_offset(self) -> int | None:
        number = self.invoke("read_offset", group=GROUP, **self._queue)
        answer = self.caller.ask(number, "GET", f"/v1/groups/{GROUP}/offsets", params={"topic": TOPIC})
        if answer is None:
            return None
        offsets = {each["queue_id"]: each["offset"] for each in answer.json()["offsets"]}
        offset = offsets.get(self._queue["queue_id"])
        self.recorder.ok(number, offset=offset)
        return offset or 0


class Owner(Worker):
    """Locks a queue that another one wants too, and gives it back."""

    def step(self) -> None:
        queue: dict[str, Any] = {"topic": TOPIC, "queue_id": 0}
        number = self.invoke("lock", group=GROUP, ack=self.caller.target.flush, hold_ms=60_000, **queue)
        content = {"client_id": self.caller.name, "queues": [queue]}
        path = f"/v1/groups/{GROUP}/locks"
        answer = self.caller.ask(number, "POST", path, json=content)
        if answer is None:
            return
        locked = bool(answer.json()["locked"])
        self.recorder.ok(number, locked=locked)
        time.sleep(self.chance.uniform(0, 0.2))
        if locked:
            freed = self.invoke("unlock", group=GROUP, **queue)
            if self.caller.ask(freed, "DELETE", path, json=content) is not None:
                self.recorder.ok(freed)


class Sink(Worker):
    """Batches of two parts, each tried until it is committed: each message is there once."""

    def __init__(self, caller: Caller, chance: random.Random) -> None:
        super().__init__(caller, chance)
        self._batch = 0

    def step(self) -> None:
        texts, names = self.bodies(self.chance.choice((2, 40)))
        half = len(texts) // 2
        number = self.invoke("produce", topic=SUNK, ack=self.caller.target.flush, payloads=names)
        batch = f"/v1/sinks/{self.caller.name}/batches/{self._batch}"
        self._batch += 1
        parts = {"a": arrow(texts[:half], 0), "b": arrow(texts[half:], 0)}
        for _ in range(200):
            put = [
                self._try("PUT", f"{batch}/parts/{part}", params={"topic": SUNK}, content=content, headers=ARROW)
                for part, content in parts.items()
            ]
            if all(put) and self._try("POST", f"{batch}/commit", json={"parts": ["a", "b"]}):
                self.recorder.ok(number)
                return
            if self.caller.target.stopping.is_set():
                return

    def _try(self, method: str, path: str, **options: Any) -> bool:
        number = self.invoke("sink")
        answer = self.caller.ask(number, method, path, **options)
        if answer is not None:
            self.recorder.ok(number)
        return answer is not None


class Nuisance(Worker):
    """Half a request, a body that stalls, an answer that nobody reads: connections are left like that."""

    def __init__(self, caller: Caller, chance: random.Random) -> None:
        super().__init__(caller, chance)
        self._left: list[socket.socket] = []

    def close(self) -> None:
        super().close()
        for connection in self._left:
            connection.close()

    def step(self) -> None:
        url = self.caller.target.url
        if url is None:
            time.sleep(0.1)
            return
        host, _, port = url.removeprefix("http://").rpartition(":")
        head = b"POST /v1/topics/nuisance/messages HTTP/1.1\r\nHost: %s\r\n" % f"{host}:{port}".encode()
        data = self.chance.choice(
            (head[:30], head + b"Content-Length: 50000000\r\n\r\n" + b"x" * 1000, b"GET /openapi.json HTTP/1.1\r\n" * 3)
        )
        try:
            connection = socket.create_connection((host, int(port)), timeout=2)
            self._left.append(connection)
            connection.sendall(data)
        except OSError:
            pass
        for old in self._left[:-10]:
            old.close()
        self._left = self._left[-10:]
        time.sleep(0.3)


Make = Callable[[Caller, random.Random], Worker]
WORKERS: dict[str, Make] = {
    "producer-1": Producer,
    "producer-2": Producer,
    "delayer": Delayer,
    "transactor": Transactor,
    "receiver-1": Receiver,
    "receiver-2": Receiver,
    "consumer-0": lambda caller, chance: Consumer(caller, chance, 0),
    "consumer-1": lambda caller, chance: Consumer(caller, chance, 1),
    "owner-1": Owner,
    "owner-2": Owner,
    "latecomer": Latecomer,
    "sink": Sink,
    "nuisance": Nuisance,
}
