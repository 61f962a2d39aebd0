"""Levels of lakemq's loggers, changed while the process runs, for a while or until it ends."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from threading import RLock
from typing import NamedTuple

from lakemq.model.errors import InvalidRequest

logger = logging.getLogger(__name__)

ROOT = "lakemq"
"""The logger above all of ours. Those of others keep their levels: what they say to find faults may hold secrets."""
LEVELS_KNOWN = ("DEBUG", "INFO", "WARNING", "ERROR")
FOR_MS_MAX = 24 * 3_600_000
NAMES_MAX = 100
"""So many are changed by one request."""


class _Changed(NamedTuple):
    until_s: float | None
    """By the clock that never goes back; None: until the process ends."""


class LogLevels:
    """Those of one process. Any thread may use it."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._lock = RLock()
        self._begin = logging.INFO
        self._changed: dict[str, _Changed] = {}

    def begin(self, level: str) -> None:
        """Ours have that level, but for those that were changed."""
        with self._lock:
            self._begin = logging.getLevelNamesMapping()[level]
            if ROOT not in self._changed:
                logging.getLogger(ROOT).setLevel(self._begin)

    def change(self, levels: Mapping[str, str | None], for_ms: int | None = None) -> None:
        """Have these loggers, and those below them, these levels; None: the one above it, and the topmost as it began.
        `for_ms`: then they are so too. Raises `InvalidRequest`, and nothing has changed then: for a name that is no
        logger's, as for a level that is none."""
        if not levels:
            raise InvalidRequest('no level is given: {"levels": {"lakemq": "DEBUG"}}')
        if for_ms is not None and not 1 <= for_ms <= FOR_MS_MAX:
            raise InvalidRequest(f"for_ms is {for_ms}; it may be 1 to {FOR_MS_MAX}")
        known = names()
        for name, level in levels.items():
            _check(name, level, known)
        with self._lock:
            until_s = None if for_ms is None else self._now_s() + for_ms / 1000
            for name, level in levels.items():
                if level is None:
                    self._put_back(name)
                else:
                    self._changed[name] = _Changed(until_s)
                    logging.getLogger(name).setLevel(level)

    def expire(self) -> None:
        """Put back what was changed for a while that is over."""
        with self._lock:
            now_s = self._now_s()
            over = [name for name, each in self._changed.items() if each.until_s is not None and each.until_s <= now_s]
            for name in over:
                self._put_back(name)
        if over:
            logger.info("the log levels of %s are restored", ", ".join(over))

    def describe(self) -> dict[str, object]:
        """`levels`: of the topmost, and of those that were changed; `back_in_ms`: of those that go back."""
        self.expire()
        with self._lock:
            now_s = self._now_s()
            found = {name: _level_of(name) for name in sorted({ROOT, *self._changed})}
            back = {
                name: max(round((each.until_s - now_s) * 1000), 0)
                for name, each in sorted(self._changed.items())
                if each.until_s is not None
            }
        return {"levels": found, "back_in_ms": back}

    def _put_back(self, name: str) -> None:
        self._changed.pop(name, None)
        logging.getLogger(name).setLevel(self._begin if name == ROOT else logging.NOTSET)


LEVELS = LogLevels()
"""Those of this process."""


def names() -> frozenset[str]:
    """Of our loggers, and of those above them: as many as lakemq has modules."""
    return frozenset(
        name for name in list(logging.root.manager.loggerDict) if name == ROOT or name.startswith(f"{ROOT}.")
    )


def _check(name: str, level: str | None, known: frozenset[str]) -> None:
    if name not in known:
        near = get_close_matches(name[:200], known, n=3) or [ROOT]
        raise InvalidRequest(f"there is no logger {name[:200]!r} here; did you mean {' or '.join(near)}?")
    if level is not None and level not in LEVELS_KNOWN:
        raise InvalidRequest(f"{level[:100]!r} is no level; there are {', '.join(LEVELS_KNOWN)}")


def _level_of(name: str) -> str:
    return logging.getLevelName(logging.getLogger(name).getEffectiveLevel())
