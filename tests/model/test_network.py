"""Who is one, as far as an address says it."""

from __future__ import annotations

import pytest

from lakemq.model.network import is_neighbour, network_of


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
