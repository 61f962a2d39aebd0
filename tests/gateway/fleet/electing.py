"""What the tests of elected leaders have in common."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

from lakemq.testing import GatewayProcess, start_gateway
from tests.as_administrator import AsAdministrator
from tests.beside import Beside
from tests.gateway.fleet.following import SMALL
from tests.gateway.http_client import connect
from tests.gateway.routing.asking import wait_until

ELECTED: dict[str, Any] = {
    **SMALL,
    "fleet__leader": "object-store",
    "fleet__lease_ms": 4_000,
    "replication__silent_ms": 4_000,
    "replication__confirm_ms_max": 20_000,
}
"""A leader's place is taken within seconds, and not while a busy machine stands still for a moment."""
SYNC: dict[str, Any] = {**ELECTED, "replication__ack": "sync"}
PATIENT: dict[str, Any] = {**SYNC, "replication__silent_ms": 90_000, "replication__confirm_ms_max": 100_000}
"""Nobody is let go because its process stood still: who follows may lead for as long as any of these tests takes."""
STILL_S = 2.0
"""In so long a standstill another one may take the place of a leader that isn't to lose it yet, as the lease of these
isn't longer than tests can wait for: what fails then begins again."""
LASTING: dict[str, Any] = {**PATIENT, "fleet__lease_ms": 20_000}
"""Nor does anybody lead because the leader stood still for some seconds: it gives its place away by order alone."""
LONGEST: dict[str, Any] = {**PATIENT, "fleet__lease_ms": 60_000}
"""The same by the longest lease there may be: it is 12 s until anybody's next look."""


class Replicas:
    """Some replicas of a broker, in folders of a directory, with a store there, or the one in the options; each may be
    killed and come back."""

    def __init__(self, directory: Path, **options: Any) -> None:
        self._directory = directory
        self._options = {"fleet__store": f"file://{directory / 'store'}", **options}
        (directory / "store").mkdir(exist_ok=True)
        self.running: dict[int, GatewayProcess] = {}
        self._clients: dict[int, httpx.Client] = {}
        self._ports: dict[int, int] = {}

    def start(self, replica: int) -> httpx.Client:
        """Start it, at the address that it had before."""
        options = {"broker__replica": replica, "gateway__port": self._ports.get(replica, 0), **self._options}
        process = start_gateway(self._directory / str(replica), **options)
        self._ports[replica] = int(process.url.rpartition(":")[2])
        self.running[replica] = process
        self._clients[replica] = connect(process)
        return self._clients[replica]

    def http(self, replica: int) -> httpx.Client:
        return self._clients[replica]

    def kill(self, replica: int) -> None:
        """It ends where it is."""
        self._clients.pop(replica).close()
        self.running.pop(replica).kill()

    def stop(self, replica: int) -> None:
        """It ends in order."""
        self._clients.pop(replica).close()
        self.running.pop(replica).stop()

    def leader(self, among: Sequence[int] | None = None) -> int:
        """Wait until one of these leads, and is asked."""
        found: list[int] = []

        def leads() -> bool:
            found[:] = [each for each in among or list(self.running) if role_of(self.http(each)) == "primary"]
            return len(found) > 0

        wait_until(leads)
        return max(found, key=lambda each: described(self.http(each)).get("epoch", 0))

    def in_sync(self, *replicas: int) -> None:
        """Wait until the leader says that just these are."""
        wait_until(lambda: described(self.http(self.leader())).get("in_sync") == list(replicas))

    def close(self) -> None:
        for replica in list(self.running):
            self.stop(replica)


class Load(Beside):
    """Somebody who sends one message after the other, to whom `leader` names, and again where it isn't known whether it
    is stored, with its key."""

    def __init__(self, addresses: Sequence[str], topic: str) -> None:
        self._addresses = list(addresses)
        self._path = f"/v1/topics/{topic}/messages"
        super().__init__()
        self.acknowledged: list[str] = []
        self.failures: list[str] = []
        """Answers that neither took the message nor said who does."""

    def _run(self) -> None:
        number = 0
        with httpx.Client(timeout=60.0, auth=AsAdministrator()) as http:
            address = self._addresses[0]
            while not self._ends.is_set():
                address = self._send(http, address, str(number))
                number += 1

    def _send(self, http: httpx.Client, address: str, body: str) -> str:
        while True:
            try:
                headers = {"Idempotency-Key": body}
                answer = http.post(address + self._path, json={"messages": [{"body": body}]}, headers=headers)
            except httpx.HTTPError as error:
                self.failures.append(repr(error))
                answer = None
            if answer is not None and answer.is_success:
                self.acknowledged.append(body)
                return address
            leader = "" if answer is None else answer.json().get("leader", "")
            if answer is not None and answer.json()["code"] not in ("not_leader", "busy"):
                self.failures.append(answer.text)
            address = leader or self._other(address)

    def _other(self, address: str) -> str:
        time.sleep(0.05)
        return self._addresses[(self._addresses.index(address) + 1) % len(self._addresses)]

    def wait_for_more(self, count: int) -> None:
        """Wait until so many more are acknowledged."""
        least = len(self.acknowledged) + count
        wait_until(lambda: len(self.acknowledged) >= least)


def described(http: httpx.Client) -> dict[str, Any]:
    """What it says of itself; nothing while it changes its role."""
    answer = http.get("/v1/broker")
    return answer.json() if answer.is_success else {}


def role_of(http: httpx.Client) -> str | None:
    """What it is; None: nothing just now."""
    return described(http).get("role")


@contextmanager
def replicas(directory: Path, *, count: int = 2, **options: Any) -> Generator[Replicas]:
    """So many of them, in sync: replica 0 leads."""
    with ExitStack() as stack:
        fleet = Replicas(directory, **options)
        stack.callback(fleet.close)
        for each in range(count):
            fleet.start(each)
        fleet.in_sync(*range(count))
        yield fleet
