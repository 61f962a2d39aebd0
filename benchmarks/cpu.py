"""Who used the processors during a measure: the server, the client, anything else. Linux's /proc."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from types import TracebackType

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_PROC = Path("/proc")


def _stat(pid: int) -> list[str] | None:
    """A process's fields after its name (the first is its state); None when it is gone."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None


def tree(pid: int) -> list[int]:
    """The process and all its descendants."""
    children: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))) is not None:
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found = [pid]
    for each in found:
        found.extend(children.get(each, []))
    return found


def cpu_s(pid: int) -> float:
    """Seconds that the process, its descendants, and those of them that ended have used."""
    total = 0
    for each in tree(pid):
        if (fields := _stat(each)) is not None:
            total += sum(int(field) for field in fields[11:15])
    return total / _TICKS_PER_S


def own_cpu_s(pid: int) -> dict[int, float]:
    """Seconds that the process and each of its descendants has used, without those that ended."""
    found = {each: _stat(each) for each in tree(pid)}
    return {each: sum(map(int, fields[11:13])) / _TICKS_PER_S for each, fields in found.items() if fields is not None}


def watch_cpu_s(pid: int, seconds: float, every_s: float = 2.0) -> float:
    """Seconds that the process and its descendants use within so many, looked at again and again: of a Python worker
    whose parent ended before it nobody says afterwards what it used."""
    before = seen = own_cpu_s(pid)
    end_s = time.monotonic() + seconds
    while (left_s := end_s - time.monotonic()) > 0:
        time.sleep(min(every_s, left_s))
        seen = seen | own_cpu_s(pid)
    return sum(used - before.get(each, 0.0) for each, used in seen.items())


def rss_bytes(pid: int) -> int:
    """Resident memory of the one process."""
    return int((_PROC / str(pid) / "statm").read_text().split()[1]) * _PAGE_BYTES


def pss_bytes(pid: int) -> int:
    """The process's share of the memory that it holds; 0 when it has ended."""
    with contextlib.suppress(OSError):
        for line in (_PROC / str(pid) / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def peak_rss_bytes(pid: int) -> int:
    """The most that it has been since the process began."""
    lines = (_PROC / str(pid) / "status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) * 1024


def _busy_s() -> float:
    """Seconds that all processors of the machine have worked."""
    fields = [int(field) for field in (_PROC / "stat").read_text().splitlines()[0].split()[1:]]
    user, nice, system, _, _, irq, softirq, *_ = fields
    return (user + nice + system + irq + softirq) / _TICKS_PER_S


def _client_s() -> float:
    spent = os.times()
    return spent.user + spent.system


class Meter:
    """`with Meter(server_pid) as meter: …`, then `meter.spent()`.

    The client is this process and what it starts and waits for within. The server must live
    throughout, and be started before.
    """

    def __init__(self, *server_pids: int) -> None:
        self._pids = server_pids
        self.wall_s = self._server_s = self._client_s = self._other_s = 0.0

    def _now(self) -> tuple[float, float, float, float]:
        children = os.times()
        waited = children.children_user + children.children_system
        return time.monotonic(), sum(map(cpu_s, self._pids)), _client_s() + waited, _busy_s()

    def __enter__(self) -> Meter:
        self._begin = self._now()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.wall_s, self._server_s, self._client_s, busy_s = (
            after - before for after, before in zip(self._now(), self._begin, strict=True)
        )
        self._other_s = max(busy_s - self._server_s - self._client_s, 0.0)

    def spent(self) -> dict[str, float]:
        """The seconds, as fields of a result."""
        return {
            "server_cpu_s": round(self._server_s, 2),
            "client_cpu_s": round(self._client_s, 2),
            "other_cpu_s": round(self._other_s, 2),
            "wall_s": round(self.wall_s, 2),
        }
