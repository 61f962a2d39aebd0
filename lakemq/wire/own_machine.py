"""Whether an address leads to the machine that this process runs on."""

from __future__ import annotations

import socket
from typing import Any
from urllib.parse import urlsplit

from lakemq.model.network import leads_home


def is_own(url: str) -> bool:
    """Whether it does. Of a name, and no other, the name service is asked."""
    if leads_home(url):
        return True
    try:
        found = socket.getaddrinfo(urlsplit(url).hostname, 0, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        return False
    return bool(found) and all(_can_bind(family, place) for family, _, _, _, place in found)


def _can_bind(family: int, place: tuple[Any, ...]) -> bool:
    """Only to an address of its own a machine binds a socket. Nothing is sent."""
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as tried:
            tried.bind(place)
    except OSError:
        return False
    return True
