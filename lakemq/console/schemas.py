"""A topic's schema, as pages show it: its versions, what a new one would change, and a proposal from its messages."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from lakemq.console.asked import Broker
from lakemq.console.shown import body_bytes
from lakemq.model.column_type import in_sql
from lakemq.model.errors import IncompatibleSchema, InvalidRequest
from lakemq.model.infer_schema import Inferred, infer_schema
from lakemq.model.protobuf_schema import bytes_of_set, only_message
from lakemq.model.schema import TEXT_BYTES_MAX, SchemaVersion, TopicSchemas, compact, next_version, parse_schema
from lakemq.model.schema_kinds import PROTOBUF, last_of_each
from lakemq.model.spark_sql import quoted

KIND_NAMES = {"json": "JSON Schema", "avro": "Avro", "protobuf": "Protobuf"}
TEXT_CHARACTERS_MAX = 4 * TEXT_BYTES_MAX
"""As many as the broker takes, spaces and all."""
INFER_MESSAGES_MAX = 1_000
"""As many as `lakemq topic schema infer` reads by default."""
INFER_BYTES_MAX = 32 * 1024 * 1024
"""Of bodies that one proposal reads."""
_PULL_MAX = 500
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class Column(NamedTuple):
    """`was`: its type in the current version; empty: it had no such column. `change`: added, changed, dropped or ""."""

    name: str
    type: str
    was: str = ""
    change: str = ""


class Preview(NamedTuple):
    """What a new version would do. `refused`: why the broker wouldn't take it; empty: it would. `same`: the current
    version says the same. `ignored`: keywords that no column holds."""

    columns: list[Column]
    ignored: tuple[str, ...] = ()
    refused: str = ""
    same: bool = False


def with_message(type: str, text: str) -> str:
    """The text; of a Protobuf schema whose message has no name, with the only one that it can be. Raises
    `InvalidRequest` where there are several."""
    try:
        said = json.loads(text) if type == PROTOBUF else None
        if not isinstance(said, dict) or said.get("message") != "":
            return text
        content = bytes_of_set(said["descriptor_set"])
    except (KeyError, TypeError, ValueError, RecursionError, InvalidRequest):
        return text  # whoever reads the schema says what is wrong
    return json.dumps(said | {"message": only_message(content)}, indent=2)


def preview_of(topic: str, known: Mapping[str, Any] | None, type: str, text: str) -> Preview:
    """By the broker's own rules. `known`: the topic's versions, as `GET /v1/schemas` lists them. Takes as long as a
    schema is large. Raises `InvalidRequest` where the text is no schema."""
    if len(text) > TEXT_CHARACTERS_MAX:
        raise InvalidRequest(f"the schema's text has more than {TEXT_CHARACTERS_MAX} characters")
    listed = () if known is None else known["versions"]
    versions = tuple(
        SchemaVersion(each["version"], each["type"], each["schema"], each["created_ms"]) for each in listed
    )
    plain = compact(text)
    parsed = parse_schema(type, plain)
    after = {each.name: in_sql(each.type) for each in parsed.columns.fields}
    if not versions:
        return Preview([Column(name, type, change="added") for name, type in after.items()], parsed.ignored)
    current = versions[-1]
    before = {each.name: in_sql(each.type) for each in parse_schema(current.type, current.text).columns.fields}
    new, refused = None, ""
    try:
        new, _ = next_version(TopicSchemas(versions, versions[-1].version), topic, type, plain, 0, None)
    except IncompatibleSchema as error:
        refused = error.detail
    return Preview(_changes(before, after), parsed.ignored, refused, new == current)


def _changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[Column]:
    found: list[Column] = []
    for name, type in after.items():
        was = before.get(name, "")
        found.append(Column(name, type, was, "added" if not was else "changed" if was != type else ""))
    return found + [Column(name, "", was, "dropped") for name, was in before.items() if name not in after]


def shown_text(text: str) -> str:
    """A schema's text with an indent, where it is JSON."""
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def statement_of(topic: str) -> str:
    """What the SQL page begins with."""
    name = topic if _PLAIN_NAME.match(topic) else quoted(topic)
    return " ".join(("SELECT * FROM", f"topics.{name}", "LIMIT 100"))


async def newest_bodies(broker: Broker, topic: str) -> list[bytes]:
    """Of the topic's newest messages, of each queue as many; no more than `INFER_BYTES_MAX` and one answer."""
    found = await broker.topic(topic)
    queues = [each for each in found["queues"] if each["max_offset"] > each["min_offset"]][:INFER_MESSAGES_MAX]
    bodies: list[bytes] = []
    taken = 0
    for queue in queues:
        end = queue["max_offset"]
        offset = max(queue["min_offset"], end - last_of_each(len(queues), INFER_MESSAGES_MAX))
        while offset < end and taken < INFER_BYTES_MAX:
            answer = await broker.pull(topic, queue["queue_id"], offset, min(end - offset, _PULL_MAX))
            here = [body_bytes(each) for each in answer["messages"]]
            bodies += here
            taken += sum(map(len, here))
            if answer["next_offset"] <= offset:
                break
            offset = answer["next_offset"]
    return bodies


def proposal_of(bodies: list[bytes]) -> Inferred:
    """A JSON Schema that they fit, as `lakemq topic schema infer` proposes it. Raises `InvalidRequest` where none of
    them is an object of JSON."""
    if not bodies:
        raise InvalidRequest("the topic has no messages to infer a schema from")
    return infer_schema(bodies)
