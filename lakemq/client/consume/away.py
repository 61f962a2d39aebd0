"""Brokers that don't answer: said once of each, however many of its queues are tried how often."""

from __future__ import annotations

import logging

from lakemq.client.errors import Unreachable

logger = logging.getLogger("lakemq.client")


class Away:
    """Those of one consumer."""

    def __init__(self) -> None:
        self._brokers: set[str] = set()

    def note(self, broker: str, error: Unreachable) -> None:
        """It doesn't answer."""
        if broker not in self._brokers:
            self._brokers.add(broker)
            logger.warning("broker %s is unreachable; retrying until it is back: %s", broker, error)

    def answered(self, broker: str) -> None:
        """It does."""
        if broker in self._brokers:
            self._brokers.discard(broker)
            logger.info("broker %s is back", broker)
