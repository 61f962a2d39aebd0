"""Telling brokers of users, as the jobs."""

from __future__ import annotations

from threading import Lock

from lakemq.contract.forms import JSON
from lakemq.contract.route import Target
from lakemq.jobs.errors import BrokerUnavailable
from lakemq.model.errors import LakemqError
from lakemq.wire.connections import Connections, NoAnswer

ANSWER_S_MAX = 5.0
ANSWER_BYTES_MAX = 64 * 1024
ADDRESSES_MAX = 256


class Brokers:
    """Connections to them, with the jobs' own credentials. For any thread."""

    def __init__(self) -> None:
        self._connections: dict[str, Connections] = {}
        self._lock = Lock()

    def tell(self, address: str, target: Target, body: bytes) -> LakemqError | None:
        """What the broker says against it; None: nothing. Raises `BrokerUnavailable` where there is no answer."""
        with self._lock:
            if address not in self._connections and len(self._connections) >= ADDRESSES_MAX:  # brokers move
                self._connections.pop(next(iter(self._connections))).close()
            connections = self._connections.setdefault(address, Connections(address))
        try:
            answer = connections.ask(
                target, None, body, {"Content-Type": JSON}, ANSWER_S_MAX, answer_bytes_max=ANSWER_BYTES_MAX
            )
        except NoAnswer:
            raise BrokerUnavailable("a broker doesn't answer, and it is to know what users take") from None
        return answer.error()

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            for each in self._connections.values():
                each.close()
