"""Looks after brokers that are avoided: one that was away is used again as soon as it is back.

RocketMQ's table keeps a broker away for minutes, which is right for one that is slow. One that was down
or hung is another matter: it is well again the moment it answers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from lakemq.client.routes import Cluster
from lakemq.contract.routes import READY
from lakemq.model.errors import LakemqError

logger = logging.getLogger(__name__)

PROBE_S = 2.0
PROBE_S_MAX = 60.0
"""How long to wait before an avoided broker is asked; longer each time when it fails again once it was used."""
PROBE_TIMEOUT_S = 0.5
"""A broker that takes longer to say that it is ready doesn't count as ready."""


class Prober:
    """`back` is told of a broker that was away and is ready now. Lives on the event loop."""

    def __init__(self, cluster: Cluster, back: Callable[[str], object]) -> None:
        self._cluster = cluster
        self._back = back
        self._probes: dict[str, asyncio.Task[None]] = {}
        self._wait_s: dict[str, float] = {}
        self._closed = False

    def failed(self, broker: str) -> None:
        """The broker gave no answer, or one that says that it can't serve: it is away."""
        self._look(broker, away=True)

    def is_late(self, broker: str) -> None:
        """The broker takes its time. If it says in time that it is ready it is merely slow, and stays avoided."""
        self._look(broker, away=False)

    def is_well(self, broker: str) -> None:
        """The broker answered in good time."""
        if self._wait_s:
            self._wait_s.pop(broker, None)

    async def close(self) -> None:
        """Stop looking, for good: what is still under way elsewhere begins no other look."""
        self._closed = True
        probes = list(self._probes.values())
        for probe in probes:
            probe.cancel()
        await asyncio.gather(*probes, return_exceptions=True)

    def _look(self, broker: str, away: bool) -> None:
        if broker not in self._probes and not self._closed:
            self._probes[broker] = asyncio.ensure_future(self._probe(broker, away))

    async def _probe(self, broker: str, away: bool) -> None:
        wait_s = self._wait_s.get(broker, PROBE_S)
        try:
            while True:
                if away:
                    await asyncio.sleep(wait_s)
                if await self._is_ready(broker):
                    break
                away = True
        finally:
            self._probes.pop(broker, None)
        if away:
            logger.debug("broker %s is back", broker)
            self._wait_s[broker] = min(2 * wait_s, PROBE_S_MAX)
            self._back(broker)

    async def _is_ready(self, broker: str) -> bool:
        try:
            primary = self._cluster.primary(broker)
            await primary.request(READY.at(), timeout_s=PROBE_TIMEOUT_S)
        except LakemqError:
            return False
        return True
