"""Ports of 127.0.0.1 for servers that tests start, and start again at the same address.

A port that the system chose may be another's as soon as its server is killed: whoever binds or connects next can be
given it. These are outside of what the system gives, and each process of a test run has a block of them for itself.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from itertools import cycle
from pathlib import Path

HOST = "127.0.0.1"
BLOCK = 512
FIRST, END = 10_240, 65_536
RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
SETTINGS = ("LAKEMQ_GATEWAY__PORT", "LAKEMQ_NAMESERVER__PORT")


def blocks(given: range) -> list[range]:
    """All that have none of the ports that the system gives."""
    found = [range(begin, begin + BLOCK) for begin in range(FIRST, END - BLOCK + 1, BLOCK)]
    return [block for block in found if block[-1] < given.start or block[0] >= given.stop]


class Ports:
    """The ports of one process, in turn: one that was used is not used again for long. `close` gives them back."""

    def __init__(self) -> None:
        low, high = map(int, RANGE.read_text().split())
        self._claim = socket.socket()
        self._ports: Iterator[int] = cycle(self._claimed(blocks(range(low, high + 1))))

    def _claimed(self, free: list[range]) -> range:
        """A block whose first port nobody has; that is held as long as the block is. Where there is none, the system
        chooses."""
        random.SystemRandom().shuffle(free)  # the run's own seed is the same in all of its processes
        for block in free:
            with suppress(OSError):
                self._claim.bind((HOST, block[0]))
                return block[1:]
        return range(1)

    def take(self) -> int:
        """One that nobody listens at; 0 where the system has to choose."""
        for _ in range(BLOCK):
            port = next(self._ports)
            with socket.socket() as probe, suppress(OSError):
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((HOST, port))
                return port
        raise RuntimeError("all ports of this process are in use")

    def placed(self, environment: Mapping[str, str]) -> dict[str, str]:
        """A server's environment, with one of these where any would do."""
        chosen = {name: str(self.take()) for name in SETTINGS if environment.get(name) == "0"}
        return {**environment, **chosen}

    def close(self) -> None:
        """Others may have the block."""
        self._claim.close()


@cache
def own_ports() -> Ports:
    """This process's."""
    return Ports()


def free_port() -> int:
    """One that nobody listens at, for a server of a test that has to know it before, or comes back at its address."""
    port = own_ports().take()
    if port:
        return port
    with socket.create_server((HOST, 0)) as listener:
        return int(listener.getsockname()[1])
