"""Who is one, as far as an address says it."""

from __future__ import annotations

import pytest

from lakemq.model.network import is_neighbour, leads_home, network_of, same_machine


@pytest.mark.parametrize(
    ("address", "network"),
    [
        (None, None),
        ("10.0.0.1", "10.0.0.1"),
        ("a-name", "a-name"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
    ],
)
def test_of_ipv6_a_network_is_one_and_else_an_address(address: str | None, network: str | None) -> None:
    assert network_of(address) == network


@pytest.mark.parametrize(
    ("address", "is_one"),
    [
        (None, False),
        ("", False),
        ("a-name", False),
        ("10.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
    ],
)
def test_a_neighbour_is_on_this_machine(address: str | None, is_one: bool) -> None:
    assert is_neighbour(address) is is_one


@pytest.mark.parametrize(
    ("peer", "own", "is_same"),
    [
        (None, None, False),
        (None, "127.0.0.1", False),
        ("127.0.0.1", None, True),
        ("127.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.2", "10.0.0.1", False),
    ],
)
def test_who_asks_by_loopback_or_from_the_address_that_he_asks_is_on_the_same_machine(
    peer: str | None, own: str | None, is_same: bool
) -> None:
    assert same_machine(peer, own) is is_same


@pytest.mark.parametrize(
    ("url", "home"),
    [
        ("http://127.0.0.1:1", True),
        ("https://127.9.9.9", True),
        ("http://localhost:1", True),
        ("http://LOCALHOST:1", True),
        ("http://a.localhost:1", True),
        ("http://[::1]:1", True),
        ("http://[::ffff:127.0.0.1]:1", True),
        ("http://0.0.0.0:1", True),
        ("http://[::]:1", True),
        ("http://10.0.0.1:1", False),
        ("http://[2001:db8::1]:1", False),
        ("http://mq.example:1", False),
        ("http://localhost.example:1", False),
        ("http://127.0.0.1.example:1", False),
        ("http://127.0.0.1@10.0.0.1:1", False),
        ("", False),
    ],
)
def test_an_address_on_loopback_leads_whoever_uses_it_to_his_own_machine(url: str, home: bool) -> None:
    assert leads_home(url) is home
