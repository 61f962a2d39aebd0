from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest

from lakemq.model.proc_net import Listener, loopback_address, read_listeners, who_listens

TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 187225196 1 0 100 0 0 10 0
   1: 00000000:07E8 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 494 1 0 100 0 0 10 0
   2: 0200007F:1F90 0100007F:9C40 01 00000000:00000000 00:00000000 00000000  4242        0 187225197 1 0 20 4 30 10 -1
   3: 0200007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  4242        0 187225198 1 0 100 0 0 10 0
"""
TCP6 = """\
  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when uid
   0: 00000000000000000000000001000000:1F90 00000000000000000000000000000000:0000 0A 0:0 00:0 0  1001        0 1 1 0
   1: 00000000000000000000000000000000:1F91 00000000000000000000000000000000:0000 0A 0:0 00:0 0  1002        0 1 1 0
   2: 0000000000000000FFFF00000100007F:1F92 00000000000000000000000000000000:0000 0A 0:0 00:0 0  1003        0 1 1 0
   3: B80D0120000000000000000001000000:1F90 00000000000000000000000000000000:0000 0A 0:0 00:0 0  1004        0 1 1 0
"""


def test_who_listens_is_read_as_the_kernel_writes_it() -> None:
    assert read_listeners(TCP.splitlines()) == [
        Listener(IPv4Address("127.0.0.1"), 8080, 1000),
        Listener(IPv4Address("0.0.0.0"), 2024, 0),
    ], "nothing is read beyond the first connection"
    assert read_listeners(TCP6.splitlines()) == [
        Listener(IPv6Address("::1"), 8080, 1001),
        Listener(IPv6Address("::"), 8081, 1002),
        Listener(IPv4Address("127.0.0.1"), 8082, 1003),
        Listener(IPv6Address("2001:db8::1"), 8080, 1004),
    ]
    assert read_listeners([]) == []


@pytest.mark.parametrize(
    ("address", "port", "uids"),
    [
        ("127.0.0.1", 8080, {1000}),
        ("::1", 8080, {1001}),
        ("127.0.0.1", 2024, {0}),
        ("127.0.0.1", 8081, {1002}),
        ("127.0.0.1", 8082, {1003}),
        ("127.0.0.2", 8080, set[int]()),
        ("127.0.0.1", 9, set[int]()),
    ],
)
def test_a_connection_is_taken_by_who_listens_there_or_everywhere(address: str, port: int, uids: set[int]) -> None:
    listeners = read_listeners(TCP.splitlines()) + read_listeners(TCP6.splitlines())
    assert who_listens(listeners, ip_address(address), port) == uids


@pytest.mark.parametrize("row", ["0: 0100007F:1F90", "0: 01:1F90 0:0 0A 0 0 0 7 0", "0: 0100007F:x 0:0 0A 0 0 0 7 0"])
def test_what_is_written_otherwise_is_refused(row: str) -> None:
    with pytest.raises(ValueError, match=r"no socket|no address|invalid literal"):
        read_listeners(["head", row])


@pytest.mark.parametrize(
    ("host", "is_own"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("10.0.0.1", False),
        ("0.0.0.0", False),
        ("localhost", False),
        ("127.0.0.1.example.com", False),
    ],
)
def test_only_addresses_of_this_machine_itself_are_loopback(host: str, is_own: bool) -> None:
    assert (loopback_address(host) is not None) == is_own
