"""Who listens on this machine, by the text of Linux's /proc/net/tcp and tcp6."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple

_LISTENS = "0A"
_UID_FIELD = 7
_V4_DIGITS, _V6_DIGITS = 8, 32
_WORD_DIGITS = 8

Address = IPv4Address | IPv6Address


class Listener(NamedTuple):
    """A socket that listens, and whose it is. An IPv4 address that is written as IPv6 is IPv4 here."""

    address: Address
    port: int
    uid: int


def read_listeners(lines: Iterable[str]) -> list[Listener]:
    """Those of one of the files, whose head is skipped. Raises `ValueError` for what isn't written so.

    Listening sockets stand before all others, of which there may be thousands: nothing is read beyond them.
    """
    found: list[Listener] = []
    rows = iter(lines)
    next(rows, None)
    for row in rows:
        fields = row.split()
        if len(fields) <= _UID_FIELD:
            raise ValueError(f"no socket: {row[:200]!r}")
        if fields[3] != _LISTENS:
            break
        host, _, port = fields[1].partition(":")
        found.append(Listener(_address(host), int(port, 16), int(fields[_UID_FIELD])))
    return found


def who_listens(listeners: Iterable[Listener], address: Address, port: int) -> frozenset[int]:
    """The users who may have taken a connection to there: whoever listens at that address, or at all of them."""
    return frozenset(
        each.uid for each in listeners if each.port == port and (each.address == address or each.address.is_unspecified)
    )


def loopback_address(host: str) -> Address | None:
    """The address of a host that is this machine itself, in digits; None for any other, names too."""
    try:
        address = ip_address(host)
    except ValueError:
        return None
    return address if address.is_loopback else None


def _address(digits: str) -> Address:
    """As the kernel writes it: words of 32 bits, each with its last byte first (as processors of Spark's and
    Python's machines have them)."""
    if len(digits) not in (_V4_DIGITS, _V6_DIGITS):
        raise ValueError(f"no address: {digits[:200]!r}")
    words = [bytes.fromhex(digits[at : at + _WORD_DIGITS])[::-1] for at in range(0, len(digits), _WORD_DIGITS)]
    if len(words) == 1:
        return IPv4Address(words[0])
    address = IPv6Address(b"".join(words))
    return address.ipv4_mapped or address
