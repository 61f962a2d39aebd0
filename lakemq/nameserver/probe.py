"""Whether anybody listens where a replica says that it does.

A broker that was killed says no goodbye, but its machine refuses connections to its port at once. So each address is
tried now and then: a connection that is refused takes the replica out, as a goodbye would, and it is back with its next
heartbeat. Time-outs, and whatever else goes wrong, say nothing: a network that is cut here may be whole elsewhere.

Whoever registers names an address, and a name server that connected to any such would scan ports for him. So it only
ever connects to **the address that the heartbeat itself came from**, at the port that was registered, and only when the
registered host is that address, or a name of it alone. So nobody learns anything but of his own machine, where he can
look himself; and a broker behind a proxy or a service's address is left alone, rather than asked at a port that isn't
its. So is one whose name has further addresses, as IPv4 and IPv6: it may listen at another one. Nothing is sent. All
probes together are at most `PROBES_A_SECOND`, however many there are to be made. Where a name has to be looked up
first, which takes as long as it takes, the others don't wait for that.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urlsplit

from lakemq.model.errors import Busy
from lakemq.nameserver.registry import Key, Registry, Source
from lakemq.web.gate import Gate

PROBES_A_SECOND = 50
AT_ONCE_MAX = 16
TIMEOUT_S = 1.0
PAUSE_S = 0.5
LOOK_UPS_AT_ONCE_MAX = 2
LOOK_UPS_WAITING_MAX = 2 * int(PROBES_A_SECOND * PAUSE_S)
"""So many wait for these, and half of them for heartbeats of one source; others have their turn in the next round."""
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
    parts = urlsplit(address)
    host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
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
    """Whether a name has no address but that which the heartbeat came from. The broker may listen at another one, and
    clients find it there: what the source refuses says nothing then."""
    wanted = _number(source)
    return bool(resolved) and all(_number(each) == wanted for each in resolved)


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
        self._look_ups = Gate(LOOK_UPS_AT_ONCE_MAX, LOOK_UPS_WAITING_MAX, 0.5)
        self._named: dict[Key, asyncio.Task[None]] = {}
        """Those whose names are looked up."""

    async def run(self) -> None:
        """Until it is cancelled."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                await asyncio.sleep(PAUSE_S)
                keys = self._round.next(self._registry, loop.time(), int(PROBES_A_SECOND * PAUSE_S))
                await asyncio.gather(*[self._probe(*each) for each in self._begin(keys)])
        finally:
            for task in self._named.values():
                task.cancel()

    def _begin(self, keys: list[Key]) -> list[tuple[Key, Target, float]]:
        """Those that can be probed at once; the names of the others are looked up before."""
        found: list[tuple[Key, Target, float]] = []
        for key in keys:
            heard = self._registry.heard(key)
            target = target_of(heard.told.address, heard.source) if heard is not None else None
            if heard is None or target is None or key in self._named:
                continue
            if _number(target.host) is not None:
                found.append((key, target, heard.heard_s))
                continue
            task = asyncio.ensure_future(self._probe_named(key, target, heard.heard_s))
            self._named[key] = task
            task.add_done_callback(lambda _, key=key: self._named.pop(key))
        return found

    async def _probe_named(self, key: Key, target: Target, heard_s: float) -> None:
        with suppress(Busy):
            async with self._look_ups.place(target.source):
                ours = await is_name_of(target)
            if ours:
                await self._probe(key, target, heard_s)

    async def _probe(self, key: Key, target: Target, heard_s: float) -> None:
        async with self._places:
            if await refuses(target):
                self._on_refused(key, heard_s)


async def refuses(target: Target) -> bool:
    """Whether a connection there is refused, for certain and within `TIMEOUT_S`."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            _, writer = await asyncio.open_connection(target.source, target.port)
    except ConnectionRefusedError:
        return True
    except OSError:  # TimeoutError is one too
        return False
    writer.transport.abort()
    return False


async def is_name_of(target: Target) -> bool:
    """Whether `host` is a name of `source` alone. Looks it up for as long as that takes: what was given up would go on
    all the same, and pile up."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    return is_source([str(each[4][0]) for each in found], target.source)
