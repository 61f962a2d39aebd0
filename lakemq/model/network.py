"""Who is one, as far as an address says it."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from urllib.parse import urlsplit

_KNOWN = 1_024
_HOST_BITS = 64
"""Of an address of IPv6 anybody has so many to choose from."""


@lru_cache(_KNOWN)
def network_of(address: str | None) -> str | None:
    """What stands for all addresses that one may have: of IPv6 the network of 64 bits, else the address."""
    try:
        found = ip_address(address or "")
    except ValueError:
        return address
    if not isinstance(found, IPv6Address):
        return address
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return f"{IPv6Address(int(found) >> _HOST_BITS << _HOST_BITS)}/{_HOST_BITS}"


@lru_cache(_KNOWN)
def is_neighbour(address: str | None) -> bool:
    """Whether that is on this machine: of IPv4 also as IPv6 writes it."""
    if address is None or address == "127.0.0.1":
        return address is not None
    try:
        found = ip_address(address)
    except ValueError:
        return False
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return (mapped or found).is_loopback


def same_machine(peer: str | None, own: str | None) -> bool:
    """Whether who asks from `peer` is on the machine that was reached at `own`: by loopback, or by an address that both
    have."""
    return peer is not None and (peer == own or is_neighbour(peer))


def leads_home(url: str) -> bool:
    """Whether a URL leads whoever uses it to their own machine, wherever that is: loopback, or no address at all, for
    which Linux takes loopback."""
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return is_neighbour(host) or ip_address(host).is_unspecified
    except ValueError:
        return False
