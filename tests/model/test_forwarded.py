"""Whom a request is from that proxies have passed on."""

from __future__ import annotations

import pytest

from lakemq.model.forwarded import CHARACTERS_MAX, HOPS_MAX, Proxies, is_forwarded, parse_network, plain_address

PROXIES = Proxies(["10.0.0.0/8", "192.0.2.1", "2001:db8::/32"])
PEER = "10.0.0.1"


@pytest.mark.parametrize(
    ("said", "client"),
    [
        ([], PEER),
        ([b""], PEER),
        ([b" , "], PEER),
        ([b"198.51.100.7"], "198.51.100.7"),
        ([b"198.51.100.7:4711"], "198.51.100.7"),
        ([b"1.1.1.1, 198.51.100.7"], "198.51.100.7"),
        ([b"1.1.1.1,198.51.100.7 , 10.9.9.9"], "198.51.100.7"),
        ([b"1.1.1.1, 198.51.100.7,"], "198.51.100.7"),
        ([b"1.1.1.1", b"198.51.100.7"], "198.51.100.7"),
        ([b"198.51.100.7", b"10.0.0.2, 192.0.2.1"], "198.51.100.7"),
        ([b"10.0.0.2, 10.0.0.3"], "10.0.0.2"),
        ([b"2001:db9::7"], "2001:db9::7"),
        ([b"[2001:DB9:0::7]:443"], "2001:db9::7"),
        ([b"2001:db9::7, 2001:db8::1"], "2001:db9::7"),
        ([b"::ffff:198.51.100.7, ::ffff:10.0.0.2"], "198.51.100.7"),
    ],
)
def test_the_client_is_the_last_that_is_no_proxy(said: list[bytes], client: str) -> None:
    assert PROXIES.client_behind(PEER, said) == client


@pytest.mark.parametrize(
    "said",
    [b"unknown", b"_hidden", b"\xff", b"1.2.3", b"01.2.3.4", b"[::1", b"fe80::1%eth0", b"1" * (CHARACTERS_MAX + 1)],
)
def test_what_is_no_address_is_who_has_passed_it_on(said: bytes) -> None:
    assert PROXIES.client_behind(PEER, [b"198.51.100.7, " + said]) == PEER
    assert PROXIES.client_behind(PEER, [b"198.51.100.7, " + said + b", 10.0.0.2"]) == "10.0.0.2"


def test_so_many_are_read_and_no_more() -> None:
    hops = b", ".join(b"10.0.1.%d" % each for each in range(HOPS_MAX + 1))
    assert PROXIES.client_behind(PEER, [b"198.51.100.7, " + hops]) == "10.0.1.1"
    assert PROXIES.client_behind(PEER, [b"198.51.100.7", b"," * HOPS_MAX]) == PEER


def test_a_proxy_is_one_in_whatever_way_its_address_is_written() -> None:
    assert PEER in PROXIES
    assert "::ffff:10.0.0.1" in PROXIES
    assert "2001:0db8::1" in PROXIES
    assert "198.51.100.7" not in PROXIES
    assert "nobody" not in PROXIES


@pytest.mark.parametrize("text", ["0.0.0.0/0", "::/0", "10.0.0.1/8", "proxy", "", "10.0.0.0/33"])
def test_everybody_is_no_proxy_nor_is_a_name(text: str) -> None:
    with pytest.raises(ValueError, match=r"everybody|host bits|does not appear"):
        parse_network(text)


def test_an_address_is_known_without_its_port() -> None:
    assert plain_address("[::1]") == "::1"
    assert plain_address("[::1]x") is None
    assert plain_address("127.0.0.1:80") == "127.0.0.1"


@pytest.mark.parametrize("name", [b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip"])
def test_a_proxy_says_that_it_is_one(name: bytes) -> None:
    assert is_forwarded([(b"host", b"lake.example"), (name, b"198.51.100.7")])
    assert not is_forwarded([(b"host", b"lake.example")])
