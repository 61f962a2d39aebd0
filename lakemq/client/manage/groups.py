"""Consumer groups and clients, looked at and cared for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from lakemq.client.consume.fetch import bounds_of_topic, offset_at
from lakemq.client.consume.subscription import to_ms
from lakemq.client.manage.ask import Brokers
from lakemq.client.manage.results import (
    ClientInfo,
    GroupInfo,
    GroupSummary,
    MemberInfo,
    OffsetChange,
    QueueLag,
    SubscriptionInfo,
)
from lakemq.client.outgoing import check_group, check_topic
from lakemq.client.wrong_type import WrongType
from lakemq.contract import client_routes, routes
from lakemq.model.errors import InvalidRequest
from lakemq.model.message_queue import MessageQueue

ResetTo = Literal["earliest", "latest"] | datetime
"""The first message there is, the end, or the first message that was stored at that time or after."""


class Groups:
    """Consumer groups at all brokers; with `broker`, at the one of that name."""

    _brokers: Brokers

    async def groups(self, *, broker: str | None = None) -> list[GroupSummary]:
        """A summary of all groups, sorted by name."""
        found = await self._brokers.each(lambda asked: asked.get(routes.GROUPS.at()), broker)
        by_name: dict[str, dict[str, Any]] = {}
        for name, answer in found.items():
            for content in answer["groups"]:
                by_name.setdefault(content["group"], {})[name] = content
        return [_summary(contents) for _, contents in sorted(by_name.items())]

    async def group(self, group: str, *, broker: str | None = None) -> GroupInfo:
        """One group: its members, their subscriptions, and its lag. Raises `GroupNotFound`."""
        target = routes.GROUP.at(check_group(group))
        return _group(await self._brokers.each(lambda asked: asked.get(target), broker))

    async def lag(self, group: str, topic: str | None = None, *, broker: str | None = None) -> list[QueueLag]:
        """A group's lag, queue by queue, in all its topics or in one. Raises `GroupNotFound`."""
        found = await self.group(group, broker=broker)
        return [each for each in found.lag if topic is None or each.queue.topic == topic]

    async def reset_offsets(
        self, group: str, topic: str, to: ResetTo, *, dry_run: bool = False, broker: str | None = None
    ) -> list[OffsetChange]:
        """Move a group's offsets in a topic, back or ahead; its members follow. Returns the changes, by queue.

        `dry_run`: only returns what would change now. Raises `TopicNotFound`, `InvalidRequest`.
        """
        check_group(group)
        content = {"topic": check_topic(topic), **_place(to)}
        params = {"topic": topic}
        answers = await self._brokers.each(lambda asked: asked.get(routes.OFFSETS.at(group), params), broker)
        before = _offsets(topic, answers)
        if dry_run:
            after = await self._places(topic, to, broker)
        else:
            target = routes.RESET_OFFSETS.at(group)
            after = _offsets(topic, await self._brokers.each(lambda asked: asked.send(target, content), broker))
        return [OffsetChange(queue, before.get(queue), offset) for queue, offset in sorted(after.items())]

    async def pause_group(self, group: str, *, broker: str | None = None) -> None:
        """Pause a group until `resume_group`: its members get no messages, also after a restart. They may finish and
        commit the messages that they already have. If the group doesn't exist, it is created."""
        await self._enable(group, False, broker)

    async def resume_group(self, group: str, *, broker: str | None = None) -> None:
        """Resume a paused group."""
        await self._enable(group, True, broker)

    async def pause_client(self, group: str, client_id: str, *, broker: str | None = None) -> None:
        """Pause one member of a group until `resume_client`. It keeps its queues, and they wait. Raises
        `GroupNotFound`, `ClientNotFound`."""
        await self._enable_client(group, client_id, False, broker)

    async def resume_client(self, group: str, client_id: str, *, broker: str | None = None) -> None:
        """Resume a paused member of a group."""
        await self._enable_client(group, client_id, True, broker)

    async def delete_group(self, group: str, *, broker: str | None = None) -> None:
        """Delete a group with its offsets, its retries and its dead letters. Raises `GroupNotFound`, and `GroupInUse`
        while it has members."""
        target = routes.DELETE_GROUP.at(check_group(group))
        await self._brokers.each(lambda asked: asked.request(target), broker)

    async def clients(
        self, group: str | None = None, *, producer_group: str | None = None, broker: str | None = None
    ) -> list[ClientInfo]:
        """The connected clients: all, or those of one consumer or producer group; each once for each broker. Raises
        `GroupNotFound` for a consumer group."""
        if group is not None and producer_group is not None:
            raise InvalidRequest("give group or producer_group, not both")
        target = client_routes.CLIENTS.at()
        if group is not None:
            target = client_routes.GROUP_CLIENTS.at(check_group(group))
        elif producer_group is not None:
            target = client_routes.PRODUCER_CLIENTS.at(check_group(producer_group))
        found = await self._brokers.each(lambda asked: asked.get(target), broker)
        clients = [_client(name, each) for name, answer in found.items() for each in answer["clients"]]
        return sorted(clients, key=lambda each: (each.kind, each.group or "", each.client_id or "", each.broker))

    async def _enable(self, group: str, enabled: bool, broker: str | None) -> None:
        target = client_routes.PUT_GROUP.at(check_group(group))
        await self._brokers.each(lambda asked: asked.send(target, {"consume_enabled": enabled}), broker)

    async def _enable_client(self, group: str, client_id: str, enabled: bool, broker: str | None) -> None:
        target = client_routes.PUT_MEMBER.at(check_group(group), client_id)
        await self._brokers.each(lambda asked: asked.send(target, {"consume_enabled": enabled}), broker)

    async def _places(self, topic: str, to: ResetTo, broker: str | None) -> dict[MessageQueue, int]:
        """The offsets that a reset would lead to now."""
        cluster = self._brokers.cluster
        found = await self._brokers.each(lambda asked: bounds_of_topic(cluster, asked.broker, topic), broker)
        bounds = {queue: each for of_broker in found.values() for queue, each in of_broker.items()}
        if isinstance(to, datetime):
            return {queue: await offset_at(cluster, queue, to_ms(to)) for queue in bounds}
        return {queue: each.begin if to == "earliest" else each.end for queue, each in bounds.items()}


def _place(to: ResetTo) -> dict[str, Any]:
    if isinstance(to, datetime):
        return {"to": "timestamp", "timestamp_ms": to_ms(to)}
    if to not in ("earliest", "latest"):
        raise WrongType("a group continues at 'earliest', 'latest' or a datetime", to)
    return {"to": to}


def _offsets(topic: str, found: Mapping[str, Mapping[str, Any]]) -> dict[MessageQueue, int]:
    return {
        MessageQueue(topic, name, entry["queue_id"]): entry["offset"]
        for name, answer in found.items()
        for entry in answer["offsets"]
    }


def _total(lags: Sequence[int | None]) -> int | None:
    known = [each for each in lags if each is not None]
    return sum(known) if len(known) == len(lags) else None


def _common(found: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What a group's two forms have in common."""
    contents = list(found.values())
    return {
        "group": contents[0]["group"],
        "brokers": tuple(sorted(found)),
        "model": contents[0]["model"],
        "paused": any(not each["consume_enabled"] for each in contents),
        "subscriptions_differ": any(each["subscriptions_differ"] for each in contents),
        "partial": any(each.get("partial", False) for each in contents),
    }


def _summary(found: Mapping[str, Mapping[str, Any]]) -> GroupSummary:
    contents = list(found.values())
    topics: set[str] = {topic for each in contents for topic in each["topics"]}
    return GroupSummary(
        **_common(found),
        members=max(each["member_count"] for each in contents),
        topics=tuple(sorted(topics)),
        lag=_total([each["lag_total"] for each in contents]),
    )


def _group(found: Mapping[str, Mapping[str, Any]]) -> GroupInfo:
    members = [
        MemberInfo(
            client_id=each["client_id"],
            broker=name,
            model=each["model"],
            consume_from=each["consume_from"],
            heartbeat_age_ms=each["heartbeat_age_ms"],
            subscriptions=tuple(
                SubscriptionInfo(wanted["topic"], wanted["type"], wanted["expression"])
                for wanted in each["subscriptions"]
            ),
        )
        for name, content in found.items()
        for each in content["clients"]
    ]
    lags = [
        QueueLag(
            MessageQueue(entry["topic"], name, entry["queue_id"]),
            entry["offset"],
            entry["min_offset"],
            entry["max_offset"],
            entry["lag"],
        )
        for name, content in found.items()
        for entry in content["lag"]
    ]
    return GroupInfo(
        **_common(found),
        members=tuple(members),
        lag=tuple(sorted(lags, key=lambda each: each.queue)),
        lag_total=_total([content["lag_total"] for content in found.values()]),
    )


def _client(broker: str, content: Mapping[str, Any]) -> ClientInfo:
    same = ("client_id", "kind", "group", "language", "version", "since_ms", "heartbeat_age_ms", "queue_count")
    return ClientInfo(
        **{name: content[name] for name in same},
        broker=broker,
        user=content.get("user"),
        address=content.get("address"),
        topics=tuple(content["topics"] or ()),
        queues=tuple(MessageQueue(each["topic"], broker, each["queue_id"]) for each in content["queues"]),
        paused=bool(content["paused"]),
        paused_by_operator=not content.get("consume_enabled", True),
        stuck=content["stuck"] or 0,
        buffered=content["buffered"] or 0,
    )
