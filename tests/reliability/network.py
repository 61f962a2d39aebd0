"""A network of its own on this machine, of which single directions can be cut: each node is a network namespace, and
all that goes from one to another goes through one more, which forwards it, or drops it without a word.

For root on Linux with `ip`; nothing of the machine's own network is changed but for one pair of interfaces.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import Self

CLIENT, CONTROL = "client", "control"
"""Two addresses of this very process: whoever binds to the first can be cut off, and still look by the second."""
STORE = "store"


def is_possible() -> bool:
    """Whether such networks can be made here."""
    return os.geteuid() == 0 and shutil.which("ip") is not None and _ip("netns", "list", check=False)


def _ip(*words: str, check: bool = True) -> bool:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise RuntimeError(f"ip {' '.join(words)}: {done.stderr}")
    return done.returncode == 0


def _free_net() -> str:
    """The first two numbers of addresses that nobody here has a way to."""
    routes = subprocess.run(["ip", "route"], capture_output=True, text=True, check=True).stdout
    first = os.getpid() % 100
    nets = (f"10.{100 + (first + number) % 100}" for number in range(100))
    return next(net for net in nets if f"{net}." not in routes)


class Network:
    """That of one run. Whose names begin with `lq` and this process's id; `close` removes all of it."""

    def __init__(self, nodes: Sequence[str]) -> None:
        self._prefix = f"lq{os.getpid()}"
        self._hub = f"{self._prefix}hub"
        self._net = _free_net()
        self._nodes = {name: number for number, name in enumerate(nodes, 1)}
        self._cut: list[tuple[str, str]] = []
        try:
            self._make()
        except BaseException:
            self.close()
            raise

    def _make(self) -> None:
        _ip("netns", "add", self._hub)
        within = ["netns", "exec", self._hub]
        for key, value in (("ip_forward", 1), ("conf.all.rp_filter", 0), ("conf.default.rp_filter", 0)):
            _ip(*within, "sysctl", "-qw", f"net.ipv4.{key}={value}")
        for name, number in self._nodes.items():
            space, port = self._space(name), f"p{number}"
            _ip("netns", "add", space)
            _ip("-n", space, "link", "add", "eth0", "type", "veth", "peer", "name", port, "netns", self._hub)
            self._join(["-n", space], "eth0", number)
            _ip("-n", space, "link", "set", "lo", "up")
            _ip("-n", space, "route", "add", "default", "via", f"{self._net}.{number}.1")
        _ip("link", "add", self._prefix, "type", "veth", "peer", "name", "p0", "netns", self._hub)
        self._join([], self._prefix, 0)
        _ip("addr", "add", f"{self._net}.0.3/24", "dev", self._prefix)
        _ip("route", "add", f"{self._net}.0.0/16", "via", f"{self._net}.0.1", "src", f"{self._net}.0.2")

    def _join(self, where: list[str], device: str, number: int) -> None:
        """Both ends of a node's line."""
        for place, name, last in ((where, device, 2), (["-n", self._hub], f"p{number}", 1)):
            _ip(*place, "addr", "add", f"{self._net}.{number}.{last}/24", "dev", name)
            _ip(*place, "link", "set", name, "up")

    def _space(self, name: str) -> str:
        return f"{self._prefix}n{self._nodes[name]}"

    def address(self, name: str) -> str:
        """Where that node is; CLIENT and CONTROL are this process."""
        if name in (CLIENT, CONTROL):
            return f"{self._net}.0.{3 if name == CLIENT else 2}"
        return f"{self._net}.{self._nodes[name]}.2"

    def within(self, name: str) -> list[str]:
        """What stands before a command that is to run at that node. The process is the command's own."""
        return ["ip", "netns", "exec", self._space(name)]

    def spawn(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
        """Start a process at that node."""
        words = [*self.within(name), *command]
        return subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True)

    def cut(self, origin: str, target: str) -> None:
        """Nothing gets from one to the other any more; what the other sends does arrive."""
        _ip("-n", self._hub, "rule", "add", *self._way(origin, target))
        self._cut.append((origin, target))

    def heal(self) -> None:
        """All gets everywhere again."""
        while self._cut:
            _ip("-n", self._hub, "rule", "del", *self._way(*self._cut.pop()))

    def _way(self, origin: str, target: str) -> list[str]:
        return ["from", self.address(origin), "to", self.address(target), "pref", "10", "blackhole"]

    def close(self) -> None:
        """Remove it. Whoever runs in it has ended."""
        for space in [*map(self._space, self._nodes), self._hub]:
            _ip("netns", "del", space, check=False)
        _ip("link", "del", self._prefix, check=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
