"""Whom a name server connects to, and what it makes of the answer."""

from __future__ import annotations

import asyncio
import socket

import pytest

from lakemq.nameserver.probe import (
    LOOK_UPS_AT_ONCE_MAX,
    Prober,
    Round,
    Target,
    is_name_of,
    is_source,
    refuses,
    target_of,
)
from lakemq.nameserver.registry import Key, Registry
from lakemq.settings import NameServer
from tests.gateway.http_client import WAIT_S
from tests.nameserver.asking import told

NAME = "127.1"
"""It is looked up as a name is, and is one of 127.0.0.1 alone; `localhost` is often one of ::1 too."""


@pytest.mark.parametrize(
    ("address", "source", "target"),
    [
        ("http://10.0.0.5:8080", "10.0.0.5", Target("10.0.0.5", 8080, "10.0.0.5")),
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


def test_a_name_is_probed_where_it_is_a_name_of_whom_the_heartbeat_came_from_alone() -> None:
    assert is_source(["10.0.0.5", "10.0.0.5"], "10.0.0.5")
    assert is_source(["10.0.0.5"], "::ffff:10.0.0.5")
    assert not is_source(["2001:db8::5", "10.0.0.5"], "2001:db8::5")  # it may listen at the other one
    assert not is_source(["10.0.0.4"], "10.0.0.5")
    assert not is_source([], "10.0.0.5")


def test_a_connection_is_refused_or_it_is_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert not asyncio.run(refuses(Target("127.0.0.1", port, "127.0.0.1")))
    assert asyncio.run(refuses(Target("127.0.0.1", port, "127.0.0.1")))


@pytest.mark.parametrize("host", ["no.such.host.invalid", "a" * 64])
def test_a_name_that_nobody_has_says_nothing(host: str) -> None:
    assert not asyncio.run(is_name_of(Target(host, 1, "127.0.0.1")))


def test_a_name_may_be_another_machines() -> None:
    assert asyncio.run(is_name_of(Target(NAME, 1, "127.0.0.1")))
    assert not asyncio.run(is_name_of(Target(NAME, 1, "127.0.0.2")))


def registry_of(addresses: dict[str, str]) -> Registry:
    """Brokers by their names, each at an address: all on this machine."""
    registry = Registry(NameServer())
    for broker, address in addresses.items():
        registry.hear(Key(broker, 0), told(address=address), b"", "127.0.0.1", 0.0)
    return registry


async def until_refused(registry: Registry, brokers: set[str]) -> set[str]:
    """Probe until these have refused; returns who did."""
    refused, done = set[str](), asyncio.Event()

    def note(key: Key, heard_s: float) -> None:
        refused.add(key.broker)
        if refused >= brokers:
            done.set()

    probing = asyncio.ensure_future(Prober(registry, 1, note).run())
    async with asyncio.timeout(WAIT_S):
        await done.wait()
    probing.cancel()
    await asyncio.wait([probing])
    return refused


def test_names_that_are_not_found_out_hold_up_nobody_and_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    async def scene() -> None:
        async def never_answers(host: str, *_: object, **__: object) -> list[object]:
            asked.append(host)
            return await asyncio.get_running_loop().create_future()

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", never_answers)
        slow = {f"slow-{number}": f"http://{number}.example:1" for number in range(100)}
        assert await until_refused(registry_of({**slow, "dead": "http://127.0.0.1:1"}), {"dead"}) == {"dead"}
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(scene())
    assert len(asked) == LOOK_UPS_AT_ONCE_MAX


def test_more_names_than_are_looked_up_at_once_all_have_their_turn() -> None:
    many = {f"named-{number}": f"http://{NAME}:1" for number in range(60)}
    registry = registry_of({**many, "of another machine": "http://no.such.host.invalid:1"})
    assert asyncio.run(until_refused(registry, set(many))) == set(many)


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
