"""A name server of the clients' tests: a real one, that tests tell of brokers as these would."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from lakemq.testing import start_nameserver
from tests.nameserver import asking


class NameServer:
    """`watchers`: how many requests it holds now."""

    def __init__(self, port: int = 0) -> None:
        # It probes none: who is away is there until it is said that it isn't, however long a test takes.
        self._process = start_nameserver(nameserver__port=port, nameserver__probe_ms=0)
        self._http = asking.connect(self._process)
        self.url = self._process.url

    def put(
        self,
        broker: str,
        address: str,
        *,
        topics: Mapping[str, tuple[int, str]],
        role: str = "primary",
        permission: str = "rw",
    ) -> None:
        """A broker says so of itself; `topics`: how many queues each has, and its permission."""
        entries = [{"topic": name, "queues": each[0], "permission": each[1]} for name, each in topics.items()]
        said = {"cluster": "default", "address": address, "role": role, "epoch": 1, "log_id": "l"}
        body = {**said, "permission": permission, "topics": entries}
        self._http.put(asking.path_of(broker), json=body).raise_for_status()

    def say_goodbye(self, broker: str) -> None:
        """A broker leaves."""
        self._http.delete(asking.path_of(broker)).raise_for_status()

    @property
    def watchers(self) -> int:
        """Of all clients."""
        return asking.metric(self._http, "watchers")

    def brokers_of(self, topic: str) -> list[str]:
        """Who has the topic."""
        return [entry["broker"] for entry in asking.routes(self._http, topic=topic)["topics"]]

    def brokers(self) -> list[dict[str, Any]]:
        """All that it knows."""
        return self._http.get("/v1/cluster").json()["brokers"]

    def stop(self) -> None:
        """Answer who waits, and be gone. Twice is fine."""
        self._http.close()
        self._process.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
