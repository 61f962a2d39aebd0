"""What processes with jobs are to write to their logs. They are told as they say that they are alive, so it takes no
way to them; what became of it they say with their next heartbeat."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from typing import Any, NamedTuple

from lakemq.logs.levels import FOR_MS_MAX, LEVELS_KNOWN, NAMES_MAX
from lakemq.model.errors import InvalidRequest
from lakemq.storage.disk.clock import Clock

AS_BEFORE_MS = 60_000
"""So long it is told that a logger is as before: many heartbeats."""
ALIVE_MS = 10_000
FOR_MS_MIN = 10_000
"""What is shorter may be over before anybody is told."""
PROCESSES_MAX = 16
_NAME = re.compile(r"lakemq(\.[a-z_][a-z0-9_]*)*")


class _Wanted(NamedTuple):
    """`until_ms`: then it is told no more, by the clock that never goes back; None: as long as this broker runs."""

    level: str | None
    until_ms: int | None


class JobLevels:
    """Those that one broker is to tell."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wanted: dict[str, _Wanted] = {}
        self._change = ""
        self._said: dict[str, tuple[Mapping[str, Any], int]] = {}

    def change(self, levels: Mapping[str, str | None], for_ms: int | None = None) -> str:
        """Have these loggers of jobs, and those below them, these levels from their next heartbeats on; None: as
        before. What the change is called. Raises `InvalidRequest`, and nothing has changed then. Which loggers there
        are a process with jobs knows: it says so."""
        if not levels:
            raise InvalidRequest('no level is given: {"levels": {"lakemq.jobs": "DEBUG"}, "of": "jobs"}')
        if for_ms is not None and not FOR_MS_MIN <= for_ms <= FOR_MS_MAX:
            raise InvalidRequest(f"for_ms is {for_ms}; for jobs it may be {FOR_MS_MIN} to {FOR_MS_MAX}")
        for name, level in levels.items():
            if not _NAME.fullmatch(name):
                raise InvalidRequest(f"{name[:200]!r} is no logger of lakemq's")
            if level is not None and level not in LEVELS_KNOWN:
                raise InvalidRequest(f"{level[:100]!r} is no level; there are {', '.join(LEVELS_KNOWN)}")
        self._forget()
        if len(self._wanted.keys() | levels.keys()) > NAMES_MAX:
            raise InvalidRequest(f"jobs are told of {NAMES_MAX} loggers at most: put some back, and wait a minute")
        now_ms = self._clock.counted_ms()
        for name, level in levels.items():
            told_ms = AS_BEFORE_MS if level is None else for_ms
            self._wanted[name] = _Wanted(level, None if told_ms is None else now_ms + told_ms)
        self._change = secrets.token_hex(4)
        return self._change

    def wanted(self) -> dict[str, Any] | None:
        """What the answer to a heartbeat tells; None: nothing."""
        self._forget()
        if not self._wanted:
            return None
        now_ms = self._clock.counted_ms()
        levels = {name: each.level for name, each in self._wanted.items()}
        for_ms = {
            name: max(each.until_ms - now_ms, 1)
            for name, each in self._wanted.items()
            if each.level is not None and each.until_ms is not None
        }
        return {"change": self._change, "levels": levels, "for_ms": for_ms}

    def hear(self, said: Mapping[str, Any]) -> None:
        """What a process says of its levels."""
        process = str(said["process"])
        self._said.pop(process, None)
        self._said[process] = said, self._clock.counted_ms()
        while len(self._said) > PROCESSES_MAX:
            del self._said[next(iter(self._said))]

    def describe(self) -> list[Mapping[str, Any]]:
        """Of each process with jobs that is alive what it said last; `change`: the last that it has taken."""
        now_ms = self._clock.counted_ms()
        return [said for said, heard_ms in self._said.values() if now_ms - heard_ms <= ALIVE_MS]

    def _forget(self) -> None:
        now_ms = self._clock.counted_ms()
        over = [name for name, each in self._wanted.items() if each.until_ms is not None and each.until_ms <= now_ms]
        for name in over:
            del self._wanted[name]
