"""Schemas of topics: shown, set, dropped, and made of the messages that are there."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (pyarrow carries no types)

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lakemq.client.consume.fetch import fetch
from lakemq.client.manage.ask import Brokers
from lakemq.client.manage.results import ColumnInfo, SchemaInfo
from lakemq.client.manage.spans import spans_of
from lakemq.client.outgoing import check_topic
from lakemq.contract import schema_routes as routes
from lakemq.model.errors import SchemaNotFound
from lakemq.model.pull_limit import MESSAGES_PER_PULL_MAX
from lakemq.model.schema_kinds import BODIES_MAX, last_of_each

if TYPE_CHECKING:  # loaded where a schema is inferred
    from lakemq.model.infer_schema import Inferred


class Schemas:
    """Schemas at all brokers; with `broker`, at the one of that name."""

    _brokers: Brokers

    async def schema(self, topic: str, *, version: int | None = None, broker: str | None = None) -> SchemaInfo:
        """A topic's schema: the current version, or the given one. Raises `TopicNotFound`, `SchemaNotFound`."""
        params = None if version is None else {"version": version}
        target = routes.SCHEMA.at(check_topic(topic))
        found = await self._brokers.each(lambda asked: asked.get(target, params), broker, SchemaNotFound)
        return _schema(found)

    async def set_schema(
        self,
        topic: str,
        schema: Mapping[str, Any] | str,
        *,
        type: str = "json",
        if_version: int | None = None,
        table: bool | None = None,
        broker: str | None = None,
    ) -> SchemaInfo:
        """Set a topic's schema, or a new version of it, at each broker that has the topic. If it is the same as the
        current one, nothing changes.

        `schema`: as JSON or its text. `type`: `json` (JSON Schema), `avro`, or `protobuf`: an object of `message`, its
        full name, and `descriptor_set`, a FileDescriptorSet in base64. `if_version`: only if this is the current
        version; 0: only if there is none. `table`: whether the jobs keep a Delta table of the topic; None: as before.
        Raises `TopicNotFound`, `InvalidRequest`, `IncompatibleSchema`, `SchemaChanged`.
        """
        content: dict[str, Any] = {"type": type, "schema": schema if isinstance(schema, str) else dict(schema)}
        content |= {} if if_version is None else {"if_version": if_version}
        content |= {} if table is None else {"table": table}
        target = routes.PUT_SCHEMA.at(check_topic(topic))
        return _schema(await self._brokers.each(lambda asked: asked.send(target, content), broker))

    async def drop_schema(self, topic: str, *, if_version: int | None = None, broker: str | None = None) -> None:
        """Drop a topic's schema, with all its versions: SQL no longer has a table for the topic. Raises
        `TopicNotFound`, `SchemaNotFound`, `SchemaChanged`."""
        params = {} if if_version is None else {"if_version": if_version}
        target = routes.DELETE_SCHEMA.at(check_topic(topic))
        await self._brokers.each(lambda asked: asked.request(target, params=params), broker, SchemaNotFound)

    async def infer_schema(self, topic: str, *, messages_max: int = 1_000) -> Inferred:
        """A JSON Schema that matches the topic's newest messages, the same number from each queue. Nothing is changed.
        Raises `TopicNotFound`, and `InvalidRequest` if none of them is a JSON object."""
        from lakemq.model.infer_schema import infer_schema

        cluster = self._brokers.cluster
        spans = [each for each in await spans_of(cluster, check_topic(topic), None, None) if each.end > each.begin]
        count = last_of_each(len(spans), messages_max)
        bodies: list[bytes] = []
        for span in spans:
            offset = max(span.begin, span.end - count)
            while offset < span.end and len(bodies) < BODIES_MAX:
                wanted = min(span.end - offset, MESSAGES_PER_PULL_MAX)
                page = await fetch(cluster, span.queue, offset, wanted, 0.0, {})
                bodies += [each or b"" for each in page.table["body"].to_pylist()]
                if page.next_offset <= offset:
                    break
                offset = page.next_offset
        return await asyncio.to_thread(infer_schema, bodies)


def _schema(found: Mapping[str, Mapping[str, Any]]) -> SchemaInfo:
    """What brokers answer of one topic, by name."""
    first = next(iter(found.values()))
    return SchemaInfo(
        topic=first["topic"],
        brokers=tuple(sorted(found)),
        version=first["version"],
        type=first["type"],
        schema=first["schema"],
        created_ms=first["created_ms"],
        columns=tuple(ColumnInfo(each["name"], each["type"]) for each in first["columns"]),
        ignored=tuple(first["ignored"]),
        versions=tuple(first["versions"]),
        differs=any(each[name] != first[name] for each in found.values() for name in ("version", "type", "schema")),
        table=any(each.get("table", False) for each in found.values()),
    )
