"""Levels of this process's loggers, as brokers have them be: the jobs have no way in for operators, but ask brokers all
the time."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping
from typing import Any, cast

from lakemq.logs import LEVELS
from lakemq.model.errors import InvalidRequest

REFUSED_MAX = 10
_REFUSED_CHARACTERS = 300

logger = logging.getLogger(__name__)


class ToldLevels:
    """What one broker has told, by the thread that asks it."""

    def __init__(self) -> None:
        self._change = ""
        self._refused: list[str] = []
        self._is_asked = False
        self._process = f"{socket.gethostname()[:60]}:{os.getpid()}"

    def take(self, address: str, answer: Mapping[str, Any]) -> None:
        """Do as the answer to a heartbeat says, once. What makes no sense in it changes nothing."""
        LEVELS.expire()
        self._is_asked = "log_levels" in answer  # an older broker doesn't understand what it is told of them
        said = answer.get("log_levels")
        if not isinstance(said, dict):
            return
        told = cast("dict[str, Any]", said)
        if told.get("change") == self._change:
            return
        self._change, self._refused = str(told["change"]), []
        for_ms: dict[str, Any] = dict(told["for_ms"])
        for name, level in dict(told["levels"]).items():
            try:
                LEVELS.change({name: level}, for_ms.get(name))
            except InvalidRequest as error:
                self._refused.append(error.detail[:_REFUSED_CHARACTERS])
            else:
                logger.info("the broker at %s set the level of %s to %s", address, name, level or "as before")
        del self._refused[REFUSED_MAX:]

    def describe(self) -> dict[str, Any] | None:
        """What the broker is told; None: it doesn't ask."""
        if not self._is_asked:
            return None
        return {"process": self._process, "change": self._change, "refused": self._refused, **LEVELS.describe()}
