"""The contract's requests about a consumer group, each to one broker.

Every method raises `Unreachable`, or the answer's own error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from lakemq.client.consume.reason import send_nacks, to_entry
from lakemq.client.routes import Cluster
from lakemq.client.transport import ANSWER_TIMEOUT_S
from lakemq.contract import routes
from lakemq.model.failure import Failure
from lakemq.model.message_queue import MessageQueue

EXPIRY_S = 120.0
LOCK_S = 60.0
"""How long a membership and a lock go on by themselves, where an answer doesn't say."""


class View(NamedTuple):
    """A broker's view of the group. `resets`: how often the group's offsets were reset there. What an
    answer doesn't say is None."""

    generation: int
    members: list[str]
    expiry_s: float
    subscriptions_differ: bool | None
    resets: int | None
    consume_enabled: bool | None = None
    """Whether this client may consume: its group, and itself."""


class Granted(NamedTuple):
    """The queues whose locks were granted, each for so long."""

    queues: list[MessageQueue]
    lock_s: float


class Committed(NamedTuple):
    """A group's offsets of one topic at a broker. `since_ms`: when it got the first of them, by the broker's clock, as
    far as the broker says so."""

    offsets: dict[MessageQueue, int]
    since_ms: int | None


class NackedMessage(NamedTuple):
    """A message to be consumed later; levels as in `ConsumeLater`."""

    message_id: str
    delay_level: int
    why: Failure | None = None


class GroupApi:
    """Requests of one client about its group."""

    def __init__(self, cluster: Cluster, group: str, client_id: str) -> None:
        self.cluster = cluster
        self.group = group
        self.client_id = client_id

    async def heartbeat(self, broker: str, content: Mapping[str, Any]) -> View:
        """Say that this client lives, and what it consumes."""
        primary = self.cluster.primary(broker)
        return self._view(await primary.send(routes.HEARTBEAT.at(self.group, self.client_id), content))

    async def leave(self, broker: str) -> None:
        """Say that this client is gone."""
        primary = self.cluster.primary(broker)
        await primary.request(routes.LEAVE.at(self.group, self.client_id))

    async def wait_members(self, broker: str, generation: int, wait_s: float) -> View:
        """The group, once its generation has changed, or when the wait has timed out."""
        primary = self.cluster.primary(broker)
        params = {"generation": generation, "wait_ms": int(wait_s * 1000)}
        target = routes.MEMBERS.at(self.group)
        return self._view(await primary.get(target, params, timeout_s=wait_s + ANSWER_TIMEOUT_S))

    async def offsets(self, broker: str, topic: str) -> Committed:
        """The group's offsets of the topic's queues at that broker, as far as it has any."""
        primary = self.cluster.primary(broker)
        answer = await primary.get(routes.OFFSETS.at(self.group), {"topic": topic})
        return Committed(_offsets(broker, answer), answer.get("since_ms"))

    async def commit(
        self, broker: str, offsets: Mapping[MessageQueue, int], if_absent: bool = False, resets: int | None = None
    ) -> dict[MessageQueue, int]:
        """Commit offsets of queues of that broker; answered: they survive a crash.

        `if_absent`: only those that the group has none of; which are in force then is returned.
        `resets`: nothing is stored when the group's offsets were reset since that count.
        """
        entries = [
            {"topic": queue.topic, "queue_id": queue.queue_id, "offset": each} for queue, each in offsets.items()
        ]
        content: dict[str, Any] = {"offsets": entries}
        if if_absent:
            content["if_absent"] = True
        if resets is not None:
            content["resets"] = resets
        primary = self.cluster.primary(broker)
        return _offsets(broker, await primary.send(routes.COMMIT_OFFSETS.at(self.group), content))

    async def lock(self, broker: str, queues: Iterable[MessageQueue]) -> Granted:
        """Take locks of queues of that broker, or renew them."""
        primary = self.cluster.primary(broker)
        answer = await primary.send(routes.LOCK.at(self.group), self._queues(queues))
        queue_ids = [MessageQueue(entry["topic"], broker, entry["queue_id"]) for entry in answer["locked"]]
        return Granted(queue_ids, answer.get("lock_ms", LOCK_S * 1000) / 1000)

    async def unlock(self, broker: str, queues: Iterable[MessageQueue]) -> None:
        """Give locks back."""
        primary = self.cluster.primary(broker)
        await primary.send(routes.UNLOCK.at(self.group), self._queues(queues))

    async def nack(self, broker: str, messages: Iterable[NackedMessage], max_reconsume_times: int | None) -> None:
        """Have messages of that broker consumed later, all or none. The same again is fine."""
        limit = {} if max_reconsume_times is None else {"max_reconsume_times": max_reconsume_times}
        entries = [
            to_entry({"message_id": each.message_id, "delay_level": each.delay_level} | limit, each.why)
            for each in messages
        ]
        primary, target = self.cluster.primary(broker), routes.NACKS.at(self.group)
        await send_nacks(lambda some: primary.send(target, {"client_id": self.client_id, "messages": some}), entries)

    def _view(self, answer: Any) -> View:
        enabled = answer.get("consume_enabled")
        return View(
            answer["generation"],
            answer["members"],
            answer.get("expiry_ms", EXPIRY_S * 1000) / 1000,
            answer.get("subscriptions_differ"),
            answer.get("resets"),
            enabled and self.client_id not in answer.get("paused", ()),
        )

    def _queues(self, queues: Iterable[MessageQueue]) -> dict[str, Any]:
        return {"client_id": self.client_id, "queues": [_queue(queue) for queue in queues]}


def _queue(queue: MessageQueue) -> dict[str, Any]:
    return {"topic": queue.topic, "queue_id": queue.queue_id}


def _offsets(broker: str, answer: Any) -> dict[MessageQueue, int]:
    entries: list[dict[str, Any]] = answer["offsets"] if answer else []
    return {MessageQueue(entry["topic"], broker, entry["queue_id"]): entry["offset"] for entry in entries}
