"""Whom a request is from that a proxy has passed on, by `X-Forwarded-For`.

Each proxy adds, at the right, where its own connection comes from. So of what stands there only as much is known as
proxies have written that are believed: the list is read from the right, and the first address that is none of theirs is
the client's. What stands left of it the client may have written itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

HOPS_MAX = 16
"""So many proxies may stand one behind the other; what is left of them isn't read."""
CHARACTERS_MAX = 64
"""An address with its port has fewer; what is longer is none."""
_KNOWN = 1_024
_FORWARDING = frozenset({b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip"})


def is_forwarded(headers: Sequence[tuple[bytes, bytes]]) -> bool:
    """Whether whoever sends these asks for somebody else, as he says: a proxy that the settings may know nothing of."""
    return not _FORWARDING.isdisjoint([name for name, _ in headers])


def parse_network(text: str) -> IPv4Network | IPv6Network:
    """The addresses that an address or a network in CIDR stands for. Raises `ValueError`, also for all addresses there
    are: anybody could then write who he is."""
    network = ip_network(text)
    if not network.prefixlen:
        raise ValueError(f"{text} is everybody: name your proxies' own addresses")
    return network


class Proxies:
    """Those that are believed."""

    def __init__(self, networks: Iterable[str]) -> None:
        """Raises `ValueError` for what is no network."""
        self._networks = tuple(parse_network(each) for each in networks)
        self._believes = lru_cache(_KNOWN)(self._is_one)

    def __contains__(self, address: str) -> bool:
        return self._believes(address)

    def _is_one(self, address: str) -> bool:
        plain = plain_address(address)
        return plain is not None and any(ip_address(plain) in each for each in self._networks)

    def client_behind(self, peer: str, said: Sequence[bytes]) -> str:
        """The client of a request that came from `peer`, which is one of them. `said`: the values of its headers
        `X-Forwarded-For`, in the order in which they came; without any it is the proxy's own request."""
        nearest = peer
        for written in _from_the_right(said):
            address = _read(written)
            if address is None:  # no more is known than who has passed that on
                break
            nearest = address
            if address not in self:
                break
        return nearest


def _from_the_right(said: Sequence[bytes]) -> Iterator[bytes]:
    left = HOPS_MAX
    for value in reversed(said):
        rest, comma = value, b","
        while comma and left:
            rest, comma, written = rest.rpartition(b",")
            left -= 1
            if written := written.strip():
                yield written


def _read(written: bytes) -> str | None:
    return plain_address(written.decode("latin-1")) if len(written) <= CHARACTERS_MAX else None


@lru_cache(_KNOWN)
def plain_address(text: str) -> str | None:
    """An address as it is compared: without its port and brackets, of IPv4 as such also where IPv6 writes it. None: it
    is no address, or one of a link, which is nobody's elsewhere."""
    host = text
    if text.startswith("["):
        host, bracket, port = text[1:].partition("]")
        if not bracket or (port and not port.startswith(":")):
            return None
    elif text.count(":") == 1:
        host = text.partition(":")[0]
    try:
        address = ip_address(host)
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            return None
        return str(address.ipv4_mapped or address)
    return str(address)
