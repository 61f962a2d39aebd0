"""Routes of topics' schemas."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from lakemq.contract import schema_routes as routes
from lakemq.gateway.access.caller import Caller, caller_of
from lakemq.gateway.http.by_fastapi import serves
from lakemq.gateway.http.in_slices import in_order, respond
from lakemq.model.access import Action, Kind, Need, Resource, need_of_topic
from lakemq.model.column_type import in_sql
from lakemq.model.errors import InvalidRequest
from lakemq.model.names import check_readable, check_writable
from lakemq.model.schema import TEXT_BYTES_MAX, VERSION_MAX, Parsed, SchemaVersion, TopicSchemas, compact, parse_schema
from lakemq.model.schema_kinds import JSON_SCHEMA
from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.log.topic_changes import TopicChanges
from lakemq.web.asgi import client_of
from lakemq.web.gate import Gate

_SPACES = 4
"""A text may be so many times as long as it is without spaces."""


class SchemaBody(BaseModel):
    """A schema, as JSON or as its text. `type`: json (JSON Schema), avro, or protobuf: an object of `message`, its full
    name, and `descriptor_set`, a FileDescriptorSet in base64. `if_version`: only if the current version is that one; 0:
    there is none. `version`: the number of a new version, above all that the topic has had, as another broker has it;
    not given: the next one. `table`: whether the jobs keep a Delta table of the topic; not given: as before."""

    model_config = ConfigDict(extra="forbid", strict=True)
    type: str = Field(JSON_SCHEMA, max_length=100)
    content: dict[str, Any] | list[Any] | str = Field(alias="schema")
    if_version: int | None = Field(None, ge=0, le=VERSION_MAX)
    version: int | None = Field(None, ge=1, le=VERSION_MAX)
    table: bool | None = None


def describe(topic: str, schemas: TopicSchemas, version: SchemaVersion, parsed: Parsed) -> dict[str, Any]:
    """A version as the contract shows it."""
    return {
        "topic": topic,
        "version": version.version,
        "type": version.type,
        "schema": version.text,
        "created_ms": version.created_ms,
        "columns": [{"name": each.name, "type": in_sql(each.type)} for each in parsed.columns.fields],
        "ignored": list(parsed.ignored),
        "versions": [each.version for each in schemas.versions],
        "table": schemas.table,
    }


def _all_of(topic: str, schemas: TopicSchemas) -> dict[str, Any]:
    versions = [
        {"version": each.version, "type": each.type, "schema": each.text, "created_ms": each.created_ms}
        for each in schemas.versions
    ]
    return {"topic": topic, "versions": versions, "table": schemas.table}


def _may_see(caller: Caller, topic: str) -> bool:
    cluster = Need((Action.GET,), Resource(Kind.CLUSTER))
    return caller.may(need_of_topic(routes.READS, topic)) or caller.may(cluster)


def make_router(log: CommitLog, changes: TopicChanges, listing: Gate) -> APIRouter:
    """The routes of the schemas of a log's topics. What is long to look at is looked at in a thread."""
    router = APIRouter()

    @serves(router, routes.SCHEMAS)
    async def list_schemas(request: Request, topic: str | None = None) -> Response:  # pyright: ignore[reportUnusedFunction]
        caller = caller_of(request.scope)
        async with listing.place(client_of(request.scope)):
            having = (each.name for each in log.topics if each.schemas.versions)
            names = await in_order([each for each in having if topic in (None, each)])

            def shown() -> Iterator[dict[str, Any]]:
                for name in names:
                    found = log.topics.find(name)
                    if found is not None and found.schemas.versions and _may_see(caller, name):
                        yield _all_of(name, found.schemas)

            return await respond({"schemas": shown()})

    @serves(router, routes.SCHEMA)
    async def get_schema(  # pyright: ignore[reportUnusedFunction]
        topic: str, version: int | None = Query(None, ge=1, le=VERSION_MAX)
    ) -> dict[str, Any]:
        schemas = log.topics.get(check_readable(topic)).schemas
        found = schemas.get(topic, version)
        return describe(topic, schemas, found, await asyncio.to_thread(parse_schema, found.type, found.text))

    @serves(router, routes.PUT_SCHEMA)
    async def put_schema(request: Request, topic: str, body: SchemaBody) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        check_writable(topic)
        if body.version is not None:
            caller_of(request.scope).check(need_of_topic((Action.CREATE,), topic))
        if isinstance(body.content, str) and len(body.content) > _SPACES * TEXT_BYTES_MAX:
            raise InvalidRequest(f"the schema's text has more than {_SPACES * TEXT_BYTES_MAX} characters")
        text = await asyncio.to_thread(compact, body.content)
        version, parsed = await changes.put_schema(
            topic, body.type, text, body.if_version, table=body.table, number=body.version
        )
        return describe(topic, log.topics.get(topic).schemas, version, parsed)

    @serves(router, routes.DELETE_SCHEMA)
    async def delete_schema(  # pyright: ignore[reportUnusedFunction]
        topic: str, if_version: int | None = Query(None, ge=0, le=VERSION_MAX)
    ) -> dict[str, Any]:
        await changes.drop_schema(check_writable(topic), if_version)
        return {"topic": topic, "dropped": True}

    return router
