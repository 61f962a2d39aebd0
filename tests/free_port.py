"""A port for a server that is killed and comes back at its address, where a test has to know it before."""

from __future__ import annotations

import random
import socket
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_END, _COUNT = 10_240, 5_000
"""Below those that servers of tests have which ask for any."""
_CHANCE = random.SystemRandom()
"""The seeded one chooses the same in each process of a test run."""


def free_port() -> int:
    """A port that nobody listens on, and that the system gives to nobody: not to a server that asks for any, and
    not as the near end of a connection. One of those may meanwhile have gone to another, and who tries again and again
    to reach a server that is away may be given the very port that he asks for, and is connected to himself."""
    end = min(_END, int(_RANGE.read_text().split()[0]))
    while True:
        port = _CHANCE.randrange(max(1_024, end - _COUNT), end)
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
