"""Ports that stay a test's while its server is down."""

from __future__ import annotations

import socket
from contextlib import closing

from lakemq.testing import start_nameserver
from tests.ports import BLOCK, FIRST, HOST, Ports, blocks


def test_blocks_are_outside_of_what_the_system_gives() -> None:
    given = range(32_768, 61_000)
    assert blocks(given)
    assert all(port not in given for block in blocks(given) for port in block)
    assert blocks(range(1024, 65_536)) == []


def test_no_two_runs_have_a_port_in_common_and_what_is_in_use_is_passed_over() -> None:
    with closing(Ports()) as one, closing(Ports()) as other, socket.socket() as listening:
        port = one.take()
        # A server of an earlier run may have had it, whose connections linger.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HOST, port + 1))
        listening.listen()
        assert one.take() == port + 2
        assert not {one.take() for _ in range(20)} & {other.take() for _ in range(20)}


def test_a_server_of_any_port_gets_one_of_these(ports: Ports) -> None:
    with start_nameserver() as nameserver:
        own = ports.take()  # the next one that is free: after the block's last its first
        assert _block_of(int(nameserver.url.rpartition(":")[2])) == _block_of(own)


def _block_of(port: int) -> int:
    return (port - FIRST) // BLOCK
