"""Topics that are made, changed and deleted: by records in the log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Protocol, TypedDict

import orjson

from lakemq.model.errors import InvalidRequest, ReadOnlyTopic
from lakemq.model.names import SYSTEM_PREFIXES, check_writable
from lakemq.model.quota import Made
from lakemq.model.schema import Parsed, SchemaVersion, next_version
from lakemq.model.topic_config import NOTHING_SAID, TopicConfig
from lakemq.model.topic_table import check_storable
from lakemq.settings import Topics
from lakemq.storage.log.appends import RowsAppend
from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.segment.rows import make_row
from lakemq.storage.state.topics import TOPICS_TOPIC, Topic, TopicRecord


class TopicSaid(TypedDict, total=False):
    """What a record says of a topic's schema."""

    schema: dict[str, Any] | None
    table: bool


class Maker(Protocol):
    """Who makes topics, or adds queues to them."""

    name: str
    """Empty: the topics count for nobody."""

    def check_room(self, topic: str, made: Callable[[], Made]) -> None:
        """Raise `OverQuota` unless so much of its own is within its quotas. `made` takes long, where there are many
        topics."""
        ...


class Nobody:
    """For which no topic counts."""

    name = ""

    def check_room(self, topic: str, made: Callable[[], Made]) -> None:
        """As `Maker`."""


NOBODY = Nobody()


def _unchanged(config: TopicConfig) -> TopicConfig:
    return config


def _anything(topic: Topic | None) -> None:
    pass


class TopicChanges:
    """Those of one log, one after the other, within `limits`. A broker that is `drained` takes no messages."""

    def __init__(self, log: CommitLog, limits: Topics, *, drained: bool = False) -> None:
        self._log = log
        self.limits = limits
        self._drained = drained
        self._creating: dict[tuple[str, str], asyncio.Future[Topic]] = {}
        """By the name, and for whom: what one may not, another may."""
        self._recording = asyncio.Lock()

    async def writable(self, name: str, maker: Maker) -> Topic:
        """The topic to produce to, made when that is allowed, and then `maker`'s. Raises `InvalidTopic`,
        `ReadOnlyTopic`, `TopicNotFound`, `OverQuota`, `StoreUnwritable`."""
        topic = self._log.topics.find(name)
        check_writable(name)
        if self._drained:
            raise ReadOnlyTopic("this broker takes no messages: its broker.permission is r")
        if topic is None:
            if not self.limits.auto_create:
                return self._log.topics.get(name)
            topic = await self._auto_create(name, maker)
        if topic.permission == "r":
            raise ReadOnlyTopic(f"topic {name!r} is read-only")
        return topic

    async def _auto_create(self, name: str, maker: Maker) -> Topic:
        return await self._once(name, maker.name, partial(self._create, name, maker))

    async def _create(self, name: str, maker: Maker) -> Topic:
        async with self._recording:
            topic = self._log.topics.find(name)  # another one may have made it meanwhile
            return topic or await self._put(name, self.limits.default_queues, "rw", _unchanged, maker)

    async def _once(self, name: str, user: str, create: Callable[[], Coroutine[Any, Any, Topic]]) -> Topic:
        creating = self._creating.get((name, user))
        if creating is None:
            creating = self._creating[name, user] = asyncio.ensure_future(create())
            creating.add_done_callback(lambda _: self._creating.pop((name, user), None))
        return await asyncio.shield(creating)

    async def system(self, name: str) -> Topic:
        """A topic of the system's, made with one queue when it is first needed: clients read it only.
        Raises `InvalidRequest` when there are too many topics, `StoreUnwritable`."""
        topic = self._log.topics.find(name)
        if topic is not None:
            return topic
        return await self._once(name, NOBODY.name, partial(self._create_system, name))

    async def _create_system(self, name: str) -> Topic:
        async with self._recording:
            if name.startswith(SYSTEM_PREFIXES[0]):  # one a group: of the others there are only a few
                self._check_room_for(name, 1)
            await self._record({"op": "put", "topic": name, "queues": 1, "permission": "r", "made": True})
            return self._log.topics.get(name)

    def _check_room_for(self, name: str, queues: int) -> None:
        topics, limits = self._log.topics, self.limits
        topic = topics.find(name)
        if topic is None and len(topics) >= limits.topics_max:
            raise InvalidRequest(f"there are {len(topics)} topics already (topics.topics_max)")
        count = topics.queue_count + queues - (len(topic.queues) if topic else 0)
        if count > limits.all_queues_max:
            raise InvalidRequest(f"there would be {count} queues of all topics together (topics.all_queues_max)")

    async def put(
        self,
        name: str,
        queues: int | None,
        permission: str | None,
        configured: Callable[[TopicConfig], TopicConfig] = _unchanged,
        *,
        maker: Maker = NOBODY,
        check: Callable[[Topic | None], None] = _anything,
    ) -> Topic:
        """Make or change a topic; done when it stands in the log. `queues`, `permission`: None: as they are, or by
        default. `configured`: its configuration, of what it was. One that is made, or has more queues then, is
        `maker`'s. `check` raises where the topic that is there, or None, is not to be changed, or made: others change
        it while this waits for its turn. Raises `InvalidRequest`, `OverQuota`, `StoreUnwritable`."""
        async with self._recording:
            old = self._log.topics.find(name)
            check(old)
            queues = queues or (len(old.queues) if old else self.limits.default_queues)
            return await self._put(name, queues, permission or (old.permission if old else "rw"), configured, maker)

    async def _put(
        self,
        name: str,
        queues: int,
        permission: str,
        configured: Callable[[TopicConfig], TopicConfig],
        maker: Maker,
    ) -> Topic:
        topics = self._log.topics
        topics.check_put(name, queues, permission, self.limits.queues_max)
        self._check_room_for(name, queues)
        old = topics.find(name)
        record: TopicRecord = {"op": "put", "topic": name, "queues": queues, "permission": permission}
        if old is None:
            record["made"] = True
        if config := configured(old.config if old else NOTHING_SAID).stored():
            record["config"] = config
        if old is None or queues > len(old.queues):
            maker.check_room(name, partial(self._made_with, maker.name, old, queues))
            if maker.name:
                record["created_by"] = maker.name
        await self._record(record)
        return topics.get(name)

    def _made_with(self, user: str, old: Topic | None, queues: int) -> Made:
        """What counts for the user, with the topic as it is to be."""
        topics, count = self._log.topics.made_by(user)
        if old is not None and old.created_by == user:
            return Made(topics, count - len(old.queues) + queues)
        return Made(topics + 1, count + queues)

    async def put_schema(
        self,
        name: str,
        type: str,
        text: str,
        expected: int | None,
        table: bool | None = None,
        number: int | None = None,
    ) -> tuple[SchemaVersion, Parsed]:
        """Give the topic a schema, or a new version of it; done when it stands in the log. Also what it says. The same
        as the current one changes nothing. `table`: whether the jobs keep a Delta table of the topic from now on; None:
        as before. `number`: that of the version; None: the next one. Raises `TopicNotFound`, `InvalidRequest`,
        `IncompatibleSchema`, `SchemaChanged`, `StoreUnwritable`."""
        async with self._recording:
            schemas = self._log.topics.get(name).schemas
            # A schema may have a thousand parts, and is held against all versions before it.
            version, parsed = await asyncio.to_thread(
                next_version, schemas, name, type, text, self._log.now_ms(), expected, number
            )
            table = schemas.table if table is None else table
            if table:
                check_storable(parsed.columns)
            said: TopicSaid = {"table": table} if table != schemas.table else {}
            if version is not schemas.current:
                self._check_room_for_schema(name, len(text.encode()))
                said["schema"] = version._asdict()
            if said:
                await self._record_schema(name, said)
            return version, parsed

    def _check_room_for_schema(self, name: str, size: int) -> None:
        topics, most = self._log.topics, self.limits.schemas_bytes_max
        alike = (each.name for each in topics if each.name.lower() == name.lower() and each.name != name)
        if (other := next((each for each in alike if topics.get(each).schemas.current), None)) is not None:
            raise InvalidRequest(f"topic {other!r} has a schema, and SQL doesn't tell its table from that of {name!r}")
        if sum(topic.schemas.text_bytes for topic in topics if topic.schemas.versions) + size > most:
            raise InvalidRequest(f"all schemas together would have more than {most} bytes (topics.schemas_bytes_max)")

    async def drop_schema(self, name: str, expected: int | None) -> None:
        """The topic has no schema any more, of no version. Raises `TopicNotFound`, `SchemaNotFound`, `SchemaChanged`,
        `StoreUnwritable`."""
        async with self._recording:
            schemas = self._log.topics.get(name).schemas
            schemas.get(name)
            schemas.check_version(name, expected)
            await self._record_schema(name, {"schema": None})

    async def _record_schema(self, name: str, said: TopicSaid) -> None:
        topic = self._log.topics.get(name)  # a deletion waits for its turn too
        record: TopicRecord = {
            "op": "put",
            "topic": name,
            "queues": len(topic.queues),
            "permission": topic.permission,
            **said,
        }
        if config := topic.config.stored():
            record["config"] = config
        await self._record(record)

    async def delete(self, name: str) -> None:
        """Delete a topic: its messages are readable no more. Raises `TopicNotFound`."""
        async with self._recording:
            topic = self._log.topics.get(name)
            count = len(topic.queues)
            await self._record({"op": "delete", "topic": name, "queues": count, "permission": topic.permission})

    async def _record(self, record: TopicRecord) -> None:
        # One at a time, as each may make as many queues as a topic may have, and what there is room for is seen before.
        body = orjson.dumps(record)
        queue = self._log.topics.queue(TOPICS_TOPIC, 0)
        await self._log.append(RowsAppend([make_row(body=body)], [queue]))
