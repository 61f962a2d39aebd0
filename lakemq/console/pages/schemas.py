"""A topic's schema: its versions, a new one with a preview, one inferred from messages, and dropping it."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import quote

from starlette.responses import Response

from lakemq.console.rendering import segment
from lakemq.console.schemas import (
    KIND_NAMES,
    TEXT_CHARACTERS_MAX,
    Preview,
    newest_bodies,
    preview_of,
    proposal_of,
    shown_text,
    statement_of,
    with_message,
)
from lakemq.console.visit import Visit
from lakemq.console.work_turns import WorkTurns
from lakemq.contract import schema_routes
from lakemq.model.access import Action
from lakemq.model.errors import Busy, InvalidRequest, LakemqError
from lakemq.model.names import is_system
from lakemq.model.schema_kinds import JSON_SCHEMA, TYPES

ANSWER_S = 30.0
VERSION_MAX = 2**31 - 1
INFERS_MAX = 2
"""So many proposals are made at a time."""
PREVIEWS_MAX, USER_PREVIEWS_MAX = 4, 2
"""So many previews run at a time, in all and for one user: each keeps a core busy while it parses its schema."""
_MISTAKES = ("invalid_request", "incompatible_schema", "schema_changed")
"""What the form says of a schema that isn't taken."""
_INFERS = asyncio.Semaphore(INFERS_MAX)
_PREVIEWS = WorkTurns(PREVIEWS_MAX, USER_PREVIEWS_MAX, "previews of schemas")


async def current_of(visit: Visit, topic: str, version: int | None = None) -> dict[str, Any] | None:
    """The version that is current, or that one; None: the topic has no schema, or this user may not see it."""
    params = None if version is None else {"version": version}
    try:
        return await visit.broker.get(schema_routes.SCHEMA.at(topic), params)
    except LakemqError as error:
        if error.code == "forbidden" or (error.code == "schema_not_found" and version is None):
            return None
        raise


def sql_link(topic: str) -> str:
    """The SQL page with a statement over the topic's table, behind the #, which browsers send to no server."""
    return f"/sql#{quote(statement_of(topic), safe='')}"


async def show(visit: Visit) -> Response:
    """The current version, or the one in the address."""
    topic, who = visit.path("topic"), await visit.who()
    await visit.broker.topic(topic)
    version = visit.number("version", 0, 1, VERSION_MAX) or None
    schema = await current_of(visit, topic, version)
    mine = not is_system(topic)
    return visit.page(
        "schema.html",
        topic=topic,
        schema=schema,
        text="" if schema is None else shown_text(schema["schema"]),
        names=KIND_NAMES,
        sql=sql_link(topic),
        statement=statement_of(topic),
        may_change=mine and who.may_on_topic(Action.UPDATE, topic),
        may_infer=mine and who.may_on_topic(Action.SUB, topic),
    )


async def new_version(visit: Visit) -> Response:
    """The form, which has the current version's text, or a proposal from messages."""
    topic = visit.path("topic")
    await visit.who()
    schema = await current_of(visit, topic)
    values = {
        "type": schema["type"] if schema else JSON_SCHEMA,
        "text": shown_text(schema["schema"]) if schema else "",
        "if_version": str(schema["version"]) if schema else "0",
    }
    if visit.field("infer") != "1":
        return _form(visit, values)
    try:
        found = await _inferred(visit, topic)
    except InvalidRequest as error:
        return _form(visit, values, error.detail, 400)
    said = f"Proposed from the newest {found.bodies:,} message{'s' if found.bodies != 1 else ''}."
    if found.others:
        said += f" {found.others:,} of them aren't JSON objects, and will be rows with an error."
    if found.left_out:
        said += f" Left out, because they can't be columns: {', '.join(found.left_out[:20])}."
    text = json.dumps(found.schema, indent=2, ensure_ascii=False)
    return _form(visit, values | {"type": JSON_SCHEMA, "text": text}, said=said)


async def _inferred(visit: Visit, topic: str) -> Any:
    if _INFERS.locked():
        raise Busy(f"{INFERS_MAX} schemas are being inferred already")
    async with _INFERS:
        return await asyncio.to_thread(proposal_of, await newest_bodies(visit.broker, topic))


def _form(visit: Visit, values: dict[str, str], problem: str = "", status: int = 200, said: str = "") -> Response:
    types = [(each, KIND_NAMES.get(each, each)) for each in TYPES]
    most = TEXT_CHARACTERS_MAX
    topic = visit.path("topic")
    return visit.page(
        "schema_form.html", status, topic=topic, values=values, types=types, most=most, problem=problem, said=said
    )


def _values(visit: Visit) -> dict[str, str]:
    text = visit.form.get("text", "").replace("\r\n", "\n").strip()
    return {"type": visit.field("type"), "text": text, "if_version": visit.field("if_version")}


async def preview(visit: Visit) -> Response:
    """The columns that the new version makes, and whether it would be taken: nothing is set yet."""
    topic, values = visit.path("topic"), _values(visit)
    who = await visit.who()
    if visit.field("edit") == "1":
        return _form(visit, values)
    if not values["text"]:
        return _form(visit, values, "Write a schema first.", 400)
    try:
        async with _PREVIEWS.turn("" if who.user is None else who.user.name):
            answer = await visit.broker.get(schema_routes.SCHEMAS.at(), {"topic": topic}, ANSWER_S)
            known = next(iter(answer["schemas"]), None)
            values["text"] = await asyncio.to_thread(with_message, values["type"], values["text"])
            found: Preview = await asyncio.to_thread(preview_of, topic, known, values["type"], values["text"])
    except InvalidRequest as error:
        return _form(visit, values, error.detail, 400)
    except Busy as error:  # the form keeps what was written
        return _form(visit, values, f"Wait a moment, then try again: {error.detail}.", 503)
    status = 400 if found.refused else 200
    first = known is None
    return visit.page(
        "schema_preview.html", status, topic=topic, values=values, found=found, first=first, names=KIND_NAMES
    )


async def set_version(visit: Visit) -> Response:
    """Set it, unless somebody else was quicker."""
    topic, values = visit.path("topic"), _values(visit)
    content: dict[str, Any] = {"type": values["type"], "schema": values["text"]}
    try:
        content["if_version"] = visit.number("if_version", 0, 0, VERSION_MAX)
        body = json.dumps(content).encode()
        await visit.broker.ask(schema_routes.PUT_SCHEMA.at(topic), body=body, timeout_s=ANSWER_S)
    except LakemqError as error:
        if error.code not in _MISTAKES:
            raise
        return _form(visit, values, error.detail, 409 if error.code != "invalid_request" else 400)
    return visit.go(f"/topics/{segment(topic)}/schema", "schema-set")


async def ask_drop(visit: Visit) -> Response:
    """What goes with it."""
    topic = visit.path("topic")
    await visit.who()
    schema = await visit.broker.get(schema_routes.SCHEMA.at(topic))
    count = len(schema["versions"])
    path = f"/topics/{segment(topic)}"
    return visit.page(
        "confirm.html",
        title=f"Drop the schema of {topic}?",
        text=f"All {count} versions are deleted." if count > 1 else "Its one version is deleted.",
        warning="The topic's table disappears from SQL, for everybody. Its messages stay. The numbers of its versions "
        "are never used again.",
        crumbs=[("/topics", "Topics"), (path, topic), (f"{path}/schema", "Schema")],
        action=f"{path}/schema/drop",
        fields={"if_version": schema["version"]},
        button="Drop it",
        back=f"{path}/schema",
    )


async def drop(visit: Visit) -> Response:
    """Drop it."""
    topic = visit.path("topic")
    params = {"if_version": visit.number("if_version", 0, 0, VERSION_MAX)}
    await visit.broker.ask(schema_routes.DELETE_SCHEMA.at(topic), params, timeout_s=ANSWER_S)
    return visit.go(f"/topics/{segment(topic)}/schema", "schema-dropped")


ROUTES = (
    ("GET", "/topics/{topic}/schema", show),
    ("GET", "/topics/{topic}/schema/new", new_version),
    ("POST", "/topics/{topic}/schema/new", preview),
    ("POST", "/topics/{topic}/schema", set_version),
    ("GET", "/topics/{topic}/schema/drop", ask_drop),
    ("POST", "/topics/{topic}/schema/drop", drop),
)
