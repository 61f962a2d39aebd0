"""Delays, transactions, nacks and receives, all the time, from one thread each; what was acknowledged is kept.

A request that wasn't answered may have been carried out or not; what was answered is a promise.
"""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Callable
from typing import Any

import httpx

from tests.as_administrator import AsAdministrator

TOPIC = "orders"
GROUP = "workers"
RECEIVED, RECEIVERS = "received", "receivers"
INVISIBLE_MS = 700
PRODUCERS = "pg"
PAUSE_S = 0.03
ATTEMPTS_S_MAX = 60.0


class Flow:
    """Load on the gateway at `url`, which may be killed and come back. `seed` repeats its choices."""

    def __init__(self, url: str, seed: int) -> None:
        self._url = url
        self._stopped = threading.Event()
        self.scheduled: dict[str, int] = {}
        self.maybe_scheduled: set[str] = set()
        self.begun: dict[str, str] = {}
        self.resolved: dict[str, str] = {}
        self.maybe_resolved: set[str] = set()
        self.nacked: dict[str, bool] = {}
        self.to_receive: set[str] = set()
        self.acked: set[str] = set()
        self.failures: list[BaseException] = []
        works: list[Callable[[httpx.Client, random.Random], None]] = [
            self._schedule,
            self._transact,
            self._nack,
            self._receive,
        ]
        self._threads = [
            threading.Thread(target=self._run, args=(work, random.Random(seed + number)), daemon=True)
            for number, work in enumerate(works)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End the load; fails with what one of its threads failed with."""
        self._stopped.set()
        for thread in self._threads:
            thread.join(ATTEMPTS_S_MAX)
        if self.failures:
            raise self.failures[0]

    def _run(self, work: Callable[[httpx.Client, random.Random], None], rng: random.Random) -> None:
        with httpx.Client(base_url=self._url, timeout=20, trust_env=False, auth=AsAdministrator()) as http:
            while not self._stopped.wait(PAUSE_S):
                try:
                    work(http, rng)
                except httpx.TransportError:
                    self._stopped.wait(0.1)  # the gateway is dead; what was asked may have been done
                except BaseException as error:  # noqa: BLE001 (raised again by `stop`)
                    self.failures.append(error)
                    return

    def _schedule(self, http: httpx.Client, rng: random.Random) -> None:
        bodies = [uuid.uuid4().hex for _ in range(rng.randint(1, 5))]
        delay_ms = rng.choice([50, 300, 1_500, 4_000])
        self.maybe_scheduled.update(bodies)
        content = {"messages": [{"body": body, "delay_ms": delay_ms} for body in bodies]}
        answer = _check(http.post(f"/v1/topics/{TOPIC}/messages", json=content))
        for body, message in zip(bodies, answer["messages"], strict=True):
            self.scheduled[body] = message["store_time_ms"]

    def _transact(self, http: httpx.Client, rng: random.Random) -> None:
        body = uuid.uuid4().hex
        path = f"/v1/topics/{TOPIC}/transactions"
        answer = _check(http.post(path, json={"messages": [{"body": body}]}, params={"producer_group": PRODUCERS}))
        (begun,) = answer["transactions"]
        self.begun[begun["transaction_id"]] = body
        resolution = rng.choice(["commit", "commit", "rollback", "unknown", ""])
        if resolution:
            self.maybe_resolved.add(begun["transaction_id"])
            self._stopped.wait(rng.choice([0, 0, 0.1, 1.2]))
            content = {"producer_group": PRODUCERS, "resolution": resolution}
            response = http.post(f"/v1/transactions/{begun['transaction_id']}", json=content)
            if response.status_code == 409:  # given up meanwhile: a rollback
                assert resolution == "commit", response.text
                return
            _check(response)
            if resolution != "unknown":
                self.resolved[begun["transaction_id"]] = resolution

    def _nack(self, http: httpx.Client, rng: random.Random) -> None:
        content = {"messages": [{"body": uuid.uuid4().hex} for _ in range(3)]}
        sent = _check(http.post("/v1/topics/plain/messages", json=content))["messages"]
        ids = [message["message_id"] for message in sent]
        dead = rng.random() < 0.5
        nacks = [{"message_id": message_id, "delay_level": -1 if dead else 1} for message_id in ids]
        for _ in range(rng.randint(1, 2)):
            _check(http.post(f"/v1/groups/{GROUP}/nacks", json={"client_id": "c", "messages": nacks}))
            for message_id in ids:
                self.nacked[message_id] = dead

    def _receive(self, http: httpx.Client, rng: random.Random) -> None:
        bodies = [uuid.uuid4().hex for _ in range(3)]
        content = {"messages": [{"body": body} for body in bodies]}
        _check(http.post(f"/v1/topics/{RECEIVED}/messages", json=content))
        self.to_receive.update(bodies)
        self.receive_some(http, rng)

    def receive_some(self, http: httpx.Client, rng: random.Random | None = None) -> int:
        """Receive, and acknowledge what chance wants, None: all; how many messages there were."""
        content = {
            "topic": RECEIVED,
            "max": 6,
            "wait_ms": 0,
            "invisible_ms": INVISIBLE_MS,
            "max_reconsume_times": 1_000,
        }
        messages = _check(http.post(f"/v1/groups/{RECEIVERS}/receive", json=content))["messages"]
        came_back = [message["body"] for message in messages if message["body"] in self.acked]
        assert not came_back, "what was acknowledged came back"
        chosen = {m["receipt"]: m["body"] for m in messages if rng is None or rng.random() < 0.7}
        if chosen:
            answer = _check(http.post(f"/v1/groups/{RECEIVERS}/acks", json={"receipts": list(chosen)}))
            self.acked.update(chosen[each["receipt"]] for each in answer["receipts"] if each["status"] == "ok")
        return len(messages)


def _check(response: httpx.Response) -> dict[str, Any]:
    assert response.status_code == 200, response.text
    return response.json()
