"""Brokers `a` and `b`, which register with a name server: what commands that speak to several are tried on."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from lakemq.client.http import HttpClient
from lakemq.model.token import ID_BYTES, SECRET_BYTES, make_token
from lakemq.testing import MemoryBroker
from tests.client.consuming import wait_until
from tests.client.name_server import NameServer


class Fleet(NamedTuple):
    """A name server, and the addresses of brokers `a` and `b`."""

    nameserver: str
    urls: dict[str, str]
    token: str = ""
    """Of a super user of both."""

    def topic(self, name: str, topic: str) -> dict[str, Any]:
        """A topic at one of them."""
        with HttpClient(self.urls[name]) as http:
            return http.topic(topic)

    @property
    def named(self) -> list[str]:
        """What a command is told."""
        return ["--nameservers", self.nameserver]


@contextmanager
def start_fleet() -> Generator[Fleet]:
    """All of it, until the end."""
    with ExitStack() as stack:
        server = stack.enter_context(NameServer())
        options: dict[str, Any] = {"fleet__nameservers": (server.url,)}
        brokers = {name: stack.enter_context(MemoryBroker(broker__name=name, **options)) for name in "ab"}
        wait_until(lambda: len(server.brokers()) == 2)
        root = make_token(bytes(range(ID_BYTES + SECRET_BYTES)))
        for broker in brokers.values():
            administrator = broker.files.read_whole(Path("/lakemq/admin.token"), 1_000).decode().strip()
            with HttpClient(broker.url, token=administrator) as http:
                http.users.put("root", "super")
                http.users.let_in("root", root.id, root.secret_hash)
        yield Fleet(server.url, {name: broker.url for name, broker in brokers.items()}, root.text)


def lines(text: str) -> list[Any]:
    """Lines of JSON, read."""
    return [json.loads(line) for line in text.splitlines()]
