"""What the tests of elected leaders have in common."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

from lakemq.testing import GatewayProcess, start_gateway
from tests.gateway.fleet.following import SMALL, broker_of
from tests.gateway.http_client import connect
from tests.gateway.routing.asking import wait_until

ELECTED = {
    **SMALL,
    "fleet__leader": "object-store",
    "fleet__lease_ms": 1_000,
    "replication__silent_ms": 1_000,
    "replication__confirm_ms_max": 20_000,
}
"""A leader's place is taken within a second or two."""
SYNC: dict[str, Any] = {**ELECTED, "replication__ack": "sync"}


class Replicas:
    """Some replicas of a broker, in folders of a directory, with a store there; each may be killed and come back."""

    def __init__(self, directory: Path, **options: Any) -> None:
        self._directory = directory
        self._options = {**options, "fleet__store": f"file://{directory / 'store'}"}
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
        return max(found, key=lambda each: broker_of(self.http(each))["epoch"])

    def in_sync(self, *replicas: int) -> None:
        """Wait until the leader says that just these are."""
        wait_until(lambda: broker_of(self.http(self.leader()))["in_sync"] == list(replicas))

    def close(self) -> None:
        for replica in list(self.running):
            self.stop(replica)


def role_of(http: httpx.Client) -> str | None:
    """What it is; None: nothing just now."""
    answer = http.get("/v1/broker")
    return answer.json()["role"] if answer.is_success else None


@contextmanager
def replicas(directory: Path, count: int = 2, **options: Any) -> Generator[Replicas]:
    """So many of them, in sync: replica 0 leads."""
    with ExitStack() as stack:
        fleet = Replicas(directory, **options)
        stack.callback(fleet.close)
        for each in range(count):
            fleet.start(each)
        fleet.in_sync(*range(count))
        yield fleet
