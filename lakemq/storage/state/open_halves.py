"""The transactions that are open, and how the others ended."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator
from itertools import islice, takewhile
from typing import Any

from pyroaring import BitMap64

from lakemq.model.transaction import Resolution, wait_ms
from lakemq.storage.state.bitmaps import pack, pack_numbers, unpack, unpack_numbers

_OLD, _OLD_CHECKED = -(2**62), -(2**62) + 1
_NO_DUE = -1
_COLUMNS = 8
_RESOLUTIONS: tuple[Resolution | None, ...] = (None, "commit", "rollback")


class OpenHalf:
    """A transaction that is open. `origin`: the position of its first half, `cause` that of the
    half that waits now, stored at `stored_ms` after `check_times` checks, and to be checked at `due_ms`; None: it is
    of a log that did not say so yet. `resolution`: the operation that came for it at `resolved_ms` and that is
    still to be decided."""

    __slots__ = ("cause", "check_times", "due_ms", "group", "origin", "resolution", "resolved_ms", "stored_ms")

    def __init__(
        self, origin: int, cause: int, check_times: int, stored_ms: int, group: str, due_ms: int | None = None
    ) -> None:
        self.origin = origin
        self.cause = cause
        self.check_times = check_times
        self.stored_ms = stored_ms
        self.group = group
        self.due_ms = due_ms
        self.resolution: Resolution | None = None
        self.resolved_ms = 0

    def due(self, timeout_ms: int, check_interval_ms: int) -> int:
        """When it is to be checked, in ms; the settings count for what does not say so itself."""
        if self.due_ms is not None:
            return self.due_ms
        return self.stored_ms + wait_ms(self.check_times, timeout_ms, check_interval_ms)

    @property
    def timer(self) -> int:
        """The timer that it is in: all in one of them wait equally long, but for a second."""
        if self.due_ms is None:
            return _OLD_CHECKED if self.check_times else _OLD
        return (self.due_ms - self.stored_ms) // 1000


class OpenHalves:
    """All transactions of a log, by the position of their first half."""

    def __init__(self) -> None:
        self._open: dict[int, OpenHalf] = {}
        # Each in the order in which they are due, but for a second: as many as there were settings.
        self._timers: dict[int, OrderedDict[int, OpenHalf]] = {}
        # Those with an operation, in the order of these.
        self._resolved: OrderedDict[int, OpenHalf] = OrderedDict()
        self.committed = BitMap64()
        self.rolled_back = BitMap64()

    def __len__(self) -> int:
        return len(self._open)

    def find(self, origin: int) -> OpenHalf | None:
        """The open transaction, or None."""
        return self._open.get(origin)

    def of_causes(self, causes: Collection[int]) -> list[OpenHalf]:
        """The open ones whose halves stand at these positions."""
        return [half for half in self._open.values() if half.cause in causes]

    def all(self) -> list[OpenHalf]:
        """The open ones."""
        return list(self._open.values())

    def checked(self) -> list[OpenHalf]:
        """The open ones that wait for the answer to a check."""
        return [half for half in self._open.values() if half.check_times]

    def begin(self, half: OpenHalf) -> None:
        """A half was stored: the first of its transaction, or the one that a check left behind."""
        before = self._open.get(half.origin)
        if before is not None:
            self._stop_timer(before)
            if before.resolution is not None:  # it counts, whatever comes for its half
                half.resolution, half.resolved_ms = before.resolution, before.resolved_ms
                self._resolved[half.origin] = half
        self._open[half.origin] = half
        self._timers.setdefault(half.timer, OrderedDict())[half.origin] = half

    def _stop_timer(self, half: OpenHalf) -> None:
        timer = half.timer
        waiting = self._timers[timer]
        del waiting[half.origin]
        if not waiting:
            del self._timers[timer]

    def resolve(self, origin: int, resolution: Resolution, stored_ms: int) -> None:
        """An operation was stored; the first one counts."""
        half = self._open.get(origin)
        if half is not None and half.resolution is None:
            half.resolution, half.resolved_ms = resolution, stored_ms
            self._resolved[origin] = half
            (self.committed if resolution == "commit" else self.rolled_back).add(origin)

    def end(self, origin: int, resolution: str) -> None:
        """The transaction has ended so."""
        self._resolved.pop(origin, None)
        half = self._open.pop(origin, None)
        if half is not None:
            self._stop_timer(half)
            (self.committed if resolution == "commit" else self.rolled_back).add(origin)

    def outcome(self, origin: int) -> str | None:
        """`commit` or `rollback`, once that is settled."""
        if origin in self.committed:
            return "commit"
        return "rollback" if origin in self.rolled_back else None

    def earliest(self, timeout_ms: int, check_interval_ms: int) -> int | None:
        """When the first timer is due, in ms; None when nothing is open."""
        firsts = [next(iter(halves.values())) for halves in self._timers.values()]
        return min((half.due(timeout_ms, check_interval_ms) for half in firsts), default=None)

    def next_over_ms(self, at_ms: int, timeout_ms: int, check_interval_ms: int) -> int | None:
        """When the next one is due after that time, as far as the first of each order says; None: none of these is."""
        resolved = [half.resolved_ms for half in islice(self._resolved.values(), 1)]
        firsts = [next(iter(halves.values())) for halves in self._timers.values()]
        times = [*resolved, *(half.due(timeout_ms, check_interval_ms) for half in firsts)]
        return min((time_ms for time_ms in times if time_ms > at_ms), default=None)

    def over(self, at_ms: int, timeout_ms: int, check_interval_ms: int) -> Iterator[OpenHalf]:
        """What is due at that time, some of it up to a second later: those with an operation as it was stored, the
        others when their timers are over; the earliest of each first. One may come twice."""
        yield from takewhile(lambda half: half.resolved_ms <= at_ms, self._resolved.values())
        for halves in self._timers.values():
            yield from takewhile(lambda half: half.due(timeout_ms, check_interval_ms) <= at_ms, halves.values())

    def forget_below(self, position: int) -> None:
        """Forget how transactions ended whose first half has left the log."""
        self.committed.remove_range(0, position)
        self.rolled_back.remove_range(0, position)

    def copy(self) -> OpenHalves:
        """All of it as it is now, to be dumped: the halves are the same, and may be resolved meanwhile."""
        copied = OpenHalves()
        copied._open = self._open.copy()
        for origin, half in self._resolved.items():
            copied._resolved[origin] = resolved = OpenHalf(
                half.origin, half.cause, half.check_times, half.stored_ms, half.group, half.due_ms
            )
            resolved.resolution, resolved.resolved_ms = half.resolution, half.resolved_ms
        copied.committed, copied.rolled_back = self.committed.copy(), self.rolled_back.copy()
        return copied

    def dump(self) -> dict[str, Any]:
        """All of it as JSON values."""
        halves = self._open.values()
        resolved = [self._resolved.get(half.origin) for half in halves]
        groups = {group: number for number, group in enumerate(sorted({half.group for half in halves}))}
        return {
            "open": [
                pack_numbers(half.origin for half in halves),
                pack_numbers(half.cause for half in halves),
                pack_numbers(half.check_times for half in halves),
                pack_numbers(half.stored_ms for half in halves),
                pack_numbers(groups[half.group] for half in halves),
                pack_numbers(_RESOLUTIONS.index(half.resolution) if half else 0 for half in resolved),
                pack_numbers(half.resolved_ms if half else 0 for half in resolved),
                pack_numbers(_NO_DUE if half.due_ms is None else half.due_ms for half in halves),
            ],
            "groups": list(groups),
            "committed": pack(self.committed),
            "rolled_back": pack(self.rolled_back),
        }

    def restore(self, dumped: dict[str, Any]) -> None:
        """Become what `dump` said."""
        self.__init__()
        columns = list(map(unpack_numbers, dumped["open"]))
        if len(columns) < _COLUMNS:  # a state from before a half said when it is due
            columns.append([_NO_DUE] * len(columns[0]))
        resolved: list[OpenHalf] = []
        for origin, cause, checks, stored_ms, group, number, resolved_ms, due_ms in sorted(
            zip(*columns, strict=True), key=lambda fields: fields[1]
        ):
            due = None if due_ms == _NO_DUE else due_ms
            half = OpenHalf(origin, cause, checks, stored_ms, dumped["groups"][group], due)
            self.begin(half)
            if number:
                half.resolution, half.resolved_ms = _RESOLUTIONS[number], resolved_ms
                resolved.append(half)
        self._resolved.update((half.origin, half) for half in sorted(resolved, key=lambda half: half.resolved_ms))
        self.committed, self.rolled_back = unpack(dumped["committed"]), unpack(dumped["rolled_back"])
