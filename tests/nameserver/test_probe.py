"""Whom a name server connects to, and what it makes of the answer."""

from __future__ import annotations

import asyncio
import socket

import pytest

from lakemq.nameserver.probe import Round, Target, is_source, refuses, target_of
from lakemq.nameserver.registry import Key, Registry
from lakemq.settings import NameServer
from tests.nameserver.asking import told


@pytest.mark.parametrize(
    ("address", "source", "target"),
    [
        ("http://10.0.0.5:8080", "10.0.0.5", Target("10.0.0.5", 8080, "10.0.0.5")),
        ("10.0.0.5:8080", "10.0.0.5", Target("10.0.0.5", 8080, "10.0.0.5")),
        ("http://10.0.0.5", "10.0.0.5", Target("10.0.0.5", 80, "10.0.0.5")),
        ("https://10.0.0.5", "::ffff:10.0.0.5", Target("10.0.0.5", 443, "::ffff:10.0.0.5")),
        ("http://[2001:db8::5]:1", "2001:db8:0::5", Target("2001:db8::5", 1, "2001:db8:0::5")),
        ("http://broker.example:8080", "10.0.0.5", Target("broker.example", 8080, "10.0.0.5")),
        ("http://10.0.0.6:8080", "10.0.0.5", None),
        ("http://127.0.0.1:22", "10.0.0.5", None),
        ("http://10.0.0.5:8080", None, None),
    ],
)
def test_only_whom_the_heartbeat_came_from_is_probed(address: str, source: str | None, target: Target | None) -> None:
    assert target_of(address, source) == target


def test_a_name_is_probed_where_it_is_a_name_of_whom_the_heartbeat_came_from() -> None:
    assert is_source(["10.0.0.4", "10.0.0.5"], "10.0.0.5")
    assert is_source(["10.0.0.5"], "::ffff:10.0.0.5")
    assert not is_source(["10.0.0.4"], "10.0.0.5")
    assert not is_source([], "10.0.0.5")


def test_a_connection_is_refused_or_it_is_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert not asyncio.run(refuses(Target("127.0.0.1", port, "127.0.0.1")))
        assert not asyncio.run(refuses(Target("localhost", port, "127.0.0.1")))
    assert asyncio.run(refuses(Target("127.0.0.1", port, "127.0.0.1")))
    assert asyncio.run(refuses(Target("localhost", port, "127.0.0.1")))


@pytest.mark.parametrize("host", ["no.such.host.invalid", "a" * 64])
def test_a_name_that_nobody_has_says_nothing(host: str) -> None:
    assert not asyncio.run(refuses(Target(host, 1, "127.0.0.1")))


def test_a_name_of_another_machine_is_not_connected_to() -> None:
    """Nothing listens at that port of either."""
    assert not asyncio.run(refuses(Target("localhost", 1, "127.0.0.2")))


def test_each_is_probed_once_a_round_and_a_round_takes_its_time() -> None:
    registry, turns = Registry(NameServer()), Round(3.0)
    keys = [Key("a", 0), Key("a", 1), Key("b", 0)]
    for key in keys:
        registry.hear(key, told(), b"", None, 0.0)
    assert turns.next(registry, 0.0, 2) == keys[:2]
    assert turns.next(registry, 0.5, 2) == keys[2:]
    assert turns.next(registry, 1.0, 2) == []
    registry.leave(keys[0])
    assert turns.next(registry, 3.0, 2) == keys[1:]
