"""A producer's heartbeats: so that one sees at a broker who sends to it. They cost nothing for each message, and a
producer that ends within some seconds sends none."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from lakemq.client.client_id import default_client_id, describe_self
from lakemq.client.routes import Cluster
from lakemq.contract import client_routes
from lakemq.model.errors import LakemqError

logger = logging.getLogger(__name__)

FIRST_S = 5.0
"""After the first message to any broker."""
HEARTBEAT_S = 30.0
"""As RocketMQ's clients."""
BYE_S = 1.0
TOPICS_MAX = 20


class Heartbeats:
    """Those of one producer, to the brokers that have stored something of it. Lives on its event loop. `group`: its
    producer group, if it is of one; `buffered`: how many messages aren't stored yet."""

    def __init__(self, cluster: Cluster, buffered: Callable[[], int]) -> None:
        self.client_id = default_client_id()
        self.group: str | None = None
        self._cluster = cluster
        self._buffered = buffered
        self._topics: dict[str, dict[str, None]] = {}
        self._told: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    def stored(self, broker: str, topic: str) -> None:
        """The broker has stored a batch."""
        topics = self._topics.get(broker)
        if topics is None:
            topics = self._topics[broker] = {}
            if self._task is None:
                self._task = asyncio.create_task(self._run())
        if topic not in topics:
            topics[topic] = None
            if len(topics) > TOPICS_MAX:
                del topics[next(iter(topics))]

    async def close(self) -> None:
        """Say to those that were told of it that it ends, as far as they hear it at once."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        told, self._told = self._told, set()
        if told:
            await asyncio.wait([asyncio.create_task(self._leave(each)) for each in told], timeout=BYE_S)

    async def _run(self) -> None:
        await asyncio.sleep(FIRST_S)
        while True:
            await asyncio.gather(*(self._beat(broker) for broker in list(self._topics)))
            await asyncio.sleep(HEARTBEAT_S)

    async def _beat(self, broker: str) -> None:
        said = describe_self(topics=list(self._topics[broker]), buffered=self._buffered())
        if self.group is not None:
            said["producer_group"] = self.group
        try:
            await self._cluster.primary(broker).send(client_routes.PUT_CLIENT.at(self.client_id), said)
            self._told.add(broker)
        except LakemqError as error:  # it stores messages all the same, or says itself why not
            logger.debug("could not send broker %s a heartbeat of producer %s: %s", broker, self.client_id, error)
        except Exception:
            logger.exception("could not send broker %s a heartbeat of producer %s", broker, self.client_id)

    async def _leave(self, broker: str) -> None:
        try:
            await self._cluster.primary(broker).request(client_routes.DELETE_CLIENT.at(self.client_id), timeout_s=BYE_S)
        except LakemqError as error:
            logger.debug("could not tell broker %s that producer %s ends: %s", broker, self.client_id, error)
