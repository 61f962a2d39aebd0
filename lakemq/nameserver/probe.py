"""Whether anybody listens where a replica says that it does.

A broker that was killed says no goodbye, but its machine refuses connections to its port at once. So each address is
tried now and then: a connection that is refused takes the replica out, as a goodbye would, and it is back with its next
heartbeat. Time-outs, and whatever else goes wrong, say nothing: a network that is cut here may be whole elsewhere.

Whoever registers names an address, and a name server that connected to any such would scan ports for him. So it only
ever connects to **the address that the heartbeat itself came from**, at the port that was registered, and only when the
registered host is that address, or a name of it. So nobody learns anything but of his own machine, where he can look
himself; and a broker behind a proxy or a service's address is left alone, rather than asked at a port that isn't its.
Nothing is sent. All probes together are at most `PROBES_A_SECOND`, however many there are to be made.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import urlsplit

from lakemq.nameserver.registry import Key, Registry, Source

PROBES_A_SECOND = 50
AT_ONCE_MAX = 16
TIMEOUT_S = 1.0
PAUSE_S = 0.5
_PORTS = {"http": 80, "https": 443}


class Target(NamedTuple):
    """Where somebody should listen. `host` is as it was registered; `source` is what is connected to."""

    host: str
    port: int
    source: str


def target_of(address: str, source: Source) -> Target | None:
    """What is to be probed of a replica that registered `address` from `source`; None: nothing is."""
    if source is None:
        return None
    parts = urlsplit(address if "://" in address else f"http://{address}")
    host, port = parts.hostname, parts.port or _PORTS.get(parts.scheme)
    if host is None or port is None:
        return None
    number = _number(host)
    return None if number is not None and number != _number(source) else Target(host, port, source)


def _number(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address, if it is one in digits; None for a name."""
    try:
        found = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if found.version == 6 else found


def is_source(resolved: list[str], source: str) -> bool:
    """Whether one of the addresses that a name has is that which the heartbeat came from."""
    wanted = _number(source)
    return any(_number(each) == wanted for each in resolved)


class Round:
    """Whose turn it is: each replica once a round, and a round takes `interval_s`, or longer when they are many."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._begun_s: float | None = None
        self._left: list[Key] = []

    def next(self, registry: Registry, now_s: float, most: int) -> list[Key]:
        """Up to `most` replicas that are to be probed now."""
        if not self._left and (self._begun_s is None or now_s - self._begun_s >= self._interval_s):
            self._left = [key for key, _ in registry.last_heard()]
            self._begun_s = now_s
        chosen, self._left = self._left[:most], self._left[most:]
        return chosen


class Prober:
    """Probes the replicas of one registry while it runs. `on_refused` is told who refuses, and when he was heard of
    last before: what was said since counts more."""

    def __init__(self, registry: Registry, interval_ms: int, on_refused: Callable[[Key, float], None]) -> None:
        self._registry = registry
        self._round = Round(interval_ms / 1000)
        self._on_refused = on_refused
        self._places = asyncio.Semaphore(AT_ONCE_MAX)

    async def run(self) -> None:
        """Until it is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(PAUSE_S)
            keys = self._round.next(self._registry, loop.time(), int(PROBES_A_SECOND * PAUSE_S))
            if keys:
                await asyncio.gather(*(self._probe(key) for key in keys))

    async def _probe(self, key: Key) -> None:
        heard = self._registry.heard(key)
        target = target_of(heard.told.address, heard.source) if heard is not None else None
        if heard is None or target is None:
            return
        heard_s = heard.heard_s
        async with self._places:
            if await refuses(target):
                self._on_refused(key, heard_s)


async def refuses(target: Target) -> bool:
    """Whether a connection there is refused, for certain and within `TIMEOUT_S`."""
    try:
        if _number(target.host) is None and not await _is_name_of(target):
            return False
        async with asyncio.timeout(TIMEOUT_S):
            _, writer = await asyncio.open_connection(target.source, target.port)
    except ConnectionRefusedError:
        return True
    except (OSError, UnicodeError):  # TimeoutError is one too
        return False
    writer.transport.abort()
    return False


async def _is_name_of(target: Target) -> bool:
    """Looks the name up for as long as that takes: what was given up would go on all the same, and pile up."""
    found = await asyncio.get_running_loop().getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    return is_source([str(each[4][0]) for each in found], target.source)
