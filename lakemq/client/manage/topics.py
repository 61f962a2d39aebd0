"""Topics, made, changed, looked at and deleted."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from lakemq.client import queue_times
from lakemq.client.broker_requests import ToPrimary
from lakemq.client.manage.ask import Brokers
from lakemq.client.manage.results import QueueInfo, TopicInfo
from lakemq.client.outgoing import check_topic
from lakemq.client.wrong_type import WrongType
from lakemq.contract import routes
from lakemq.contract.route import Target
from lakemq.model.message_queue import MessageQueue
from lakemq.model.topic_config import TopicConfig

_CONFIG = ("permission", *TopicConfig._fields)


class Topics:
    """Topics of all brokers; with `broker`, of the one of that name."""

    _brokers: Brokers

    async def topics(self, *, system: bool = False, broker: str | None = None) -> list[TopicInfo]:
        """All topics, sorted by name; with `system` also system topics, as far as you may read them."""
        params = {"system": "true"} if system else None
        found = await self._brokers.each(lambda asked: asked.get(routes.TOPICS.at(), params), broker)
        by_name: dict[str, dict[str, Any]] = {}
        for name, answer in found.items():
            for content in answer["topics"]:
                by_name.setdefault(content["topic"], {})[name] = content
        return [_topic(contents) for _, contents in sorted(by_name.items())]

    async def topic(self, topic: str, *, times: bool = False, broker: str | None = None) -> TopicInfo:
        """One topic with the offsets of its queues. Raises `TopicNotFound`.

        `times`: also when the oldest and the newest message of each queue were stored, of at most 4,096 queues of each
        broker. This takes a request per 64 queues, and may read the lake.
        """
        target = routes.TOPIC.at(check_topic(topic))
        return _topic(await self._brokers.each(lambda asked: _found(asked, target, times), broker))

    async def create_topic(
        self,
        topic: str,
        *,
        queues: int | None = None,
        permission: str | None = None,
        message_type: str | None = None,
        ttl: timedelta | None = None,
        message_bytes_max: int | None = None,
        broker: str | None = None,
    ) -> TopicInfo:
        """Create a topic at all brokers, or change an existing one. Settings that aren't given get the broker's
        default, or stay the same. Returns the topic as it is then.

        `queues`: at each broker; the number can only grow. `permission`: what clients may do, `r`, `w` or `rw`.
        `message_type`: `any`, `normal`, `fifo`, `delay`, `transaction` or `priority`. `ttl`: how long its messages are
        delivered; 0: forever. `message_bytes_max`: the largest body; 0: the broker's limit. Raises `InvalidTopic`,
        `InvalidRequest`.
        """
        content = _content(queues, permission, message_type, ttl, message_bytes_max)
        target = routes.PUT_TOPIC.at(check_topic(topic))
        return _topic(await self._brokers.each(lambda asked: asked.send(target, content), broker))

    async def configure_topic(
        self,
        topic: str,
        *,
        queues: int | None = None,
        permission: str | None = None,
        message_type: str | None = None,
        ttl: timedelta | None = None,
        message_bytes_max: int | None = None,
        broker: str | None = None,
    ) -> TopicInfo:
        """Change the given settings of a topic, at every broker that has it. The arguments are those of `create_topic`.
        Raises `TopicNotFound`, `InvalidRequest`."""
        content = _content(queues, permission, message_type, ttl, message_bytes_max)
        there = await self.topic(topic, broker=broker)
        target = routes.PUT_TOPIC.at(topic)
        done = [
            await self._brokers.each(lambda asked: asked.send(target, content), name) for name in sorted(there.brokers)
        ]
        return _topic({name: answer for each in done for name, answer in each.items()})

    async def delete_topic(self, topic: str, *, broker: str | None = None) -> None:
        """Delete a topic: its messages can no longer be received. Raises `TopicNotFound`."""
        target = routes.DELETE_TOPIC.at(check_topic(topic))
        await self._brokers.each(lambda asked: asked.request(target), broker)


async def _found(asked: ToPrimary, target: Target, times: bool) -> dict[str, Any]:
    asking = queue_times.Asking(times)
    for params in asking.queries():
        asking.take(await asked.get(target, params))
    return asking.topic


def _content(
    queues: int | None,
    permission: str | None,
    message_type: str | None,
    ttl: timedelta | None,
    message_bytes_max: int | None,
) -> dict[str, Any]:
    if ttl is not None and not isinstance(ttl, timedelta):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise WrongType("ttl is a timedelta", ttl)
    ttl_ms = None if ttl is None else ttl // timedelta(milliseconds=1)
    said = {
        "queues": queues,
        "permission": permission,
        "message_type": message_type,
        "ttl_ms": ttl_ms,
        "message_bytes_max": message_bytes_max,
    }
    return {name: value for name, value in said.items() if value is not None}


def _topic(found: Mapping[str, Mapping[str, Any]]) -> TopicInfo:
    """What brokers answer of one topic, by name."""
    first = next(iter(found.values()))
    queues = [
        QueueInfo(
            MessageQueue(content["topic"], name, queue["queue_id"]),
            queue["min_offset"],
            queue["max_offset"],
            queue["log_min_offset"],
            queue.get("oldest_ms"),
            queue.get("newest_ms"),
        )
        for name, content in found.items()
        for queue in content["queues"]
    ]
    return TopicInfo(
        topic=first["topic"],
        brokers=tuple(sorted(found)),
        **{name: first[name] for name in _CONFIG},
        expired=sum(content["expired"] for content in found.values()),
        differs=any(content[name] != first[name] for content in found.values() for name in _CONFIG),
        queues=tuple(sorted(queues)),
    )
