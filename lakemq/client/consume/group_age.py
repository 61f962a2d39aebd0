"""Since when a group has consumed a topic: where a queue begins at a broker where the group has no offsets yet."""

from __future__ import annotations

import asyncio
import logging

from lakemq.client.consume.group_api import Committed, GroupApi
from lakemq.client.consume.start_offset import ALWAYS
from lakemq.model.errors import LakemqError

logger = logging.getLogger("lakemq.client")

ASK_S = 3.0
"""A broker that says nothing for so long isn't waited for."""


class GroupAge:
    """What brokers say of it. It is remembered, for when those that know it don't answer."""

    def __init__(self, api: GroupApi) -> None:
        self._api = api
        self._since_ms: dict[str, int] = {}

    def note(self, topic: str, committed: Committed) -> None:
        """A broker says this of the group."""
        if committed.offsets:
            since_ms = ALWAYS if committed.since_ms is None else committed.since_ms
            self._since_ms[topic] = min(since_ms, self._since_ms.get(topic, since_ms))

    async def ask(self, topic: str, but: str | None = None) -> int | None:
        """When the group got its first offset of the topic at any broker; `ALWAYS` where that isn't known, None where
        it has none. `but`: a broker that was asked already. Raises `Unreachable`."""
        names = [each.name for each in await self._api.cluster.brokers() if each.name != but]
        answers = await asyncio.gather(*(self._ask(name, topic) for name in names))
        silent = [name for name, answered in zip(names, answers, strict=True) if not answered]
        since_ms = self._since_ms.get(topic)
        if since_ms is None and silent:
            logger.warning(
                (
                    "group %s begins with the messages of %s that come from now on: it has no offsets at the brokers "
                    "that answer, and %s may have some but can't be asked"
                ),
                self._api.group,
                topic,
                ", ".join(silent),
            )
        return since_ms

    async def _ask(self, broker: str, topic: str) -> bool:
        """Whether it answered."""
        try:
            async with asyncio.timeout(ASK_S):
                self.note(topic, await self._api.offsets(broker, topic))
        except (LakemqError, TimeoutError):
            return False
        return True
