"""Schemas of topics: their kinds, their versions, and which change of one is compatible.

Compatible is what Confluent's Schema Registry calls BACKWARD_TRANSITIVE: with the new schema one can read what was
written with any version before it (docs.confluent.io, "Schema Evolution and Compatibility"). For JSON there is one
difference: a property may be added though older bodies may have had one of its name; those that don't fit have errors.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from lakemq.model.avro_decode import check_defaults, decoder_of_avro
from lakemq.model.avro_schema import AvroType, check_avro_readable, parse_avro_schema
from lakemq.model.column_type import (
    ARRAY,
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    JSON,
    MAP,
    STRING,
    STRUCT,
    TIMESTAMP,
    ColumnType,
    in_sql,
)
from lakemq.model.errors import IncompatibleSchema, InvalidRequest, SchemaChanged, SchemaNotFound
from lakemq.model.fit import Misfit, decoder_of_json
from lakemq.model.json_schema import parse_json_schema
from lakemq.model.protobuf_decode import decoder_of_protobuf
from lakemq.model.protobuf_schema import ProtoMessage, check_protobuf_readable, parse_protobuf_schema
from lakemq.model.schema_kinds import AVRO, PROTOBUF, TYPES
from lakemq.model.topic_columns import IN_VIEW

TEXT_BYTES_MAX = 64 * 1024
VERSIONS_MAX = 100
VERSION_MAX = 2**31 - 1
REASONS_MAX = 5

Decode = Callable[[bytes, int], dict[str, Any]]
"""Makes a row of a body, and of when it was stored, in ms. Raises `Misfit`."""


class SchemaVersion(NamedTuple):
    """One version of a topic's schema, as it is stored. `text`: JSON without spaces. `created_ms`: when it was set."""

    version: int
    type: str
    text: str
    created_ms: int


class TopicSchemas(NamedTuple):
    """What a topic has of them, oldest first. `last`: the highest number that was ever given to one of the topic's, so
    that none is given twice. `table`: the jobs keep a Delta table of the topic."""

    versions: tuple[SchemaVersion, ...] = ()
    last: int = 0
    table: bool = False

    @property
    def current(self) -> SchemaVersion | None:
        """The one by which bodies are read; None: there is none."""
        return self.versions[-1] if self.versions else None

    @property
    def text_bytes(self) -> int:
        """What it takes."""
        return sum(len(each.text.encode()) for each in self.versions)

    def get(self, topic: str, version: int | None = None) -> SchemaVersion:
        """The one of that number, or the current one. Raises `SchemaNotFound`."""
        found = self.current
        if version is not None:
            found = next((each for each in self.versions if each.version == version), None)
        if found is None:
            which = "schema" if version is None else f"version {version} of a schema"
            raise SchemaNotFound(f"topic {topic[:200]!r} has no {which}")
        return found

    def stored(self) -> dict[str, Any]:
        """As a state of the log has it."""
        table = {"table": True} if self.table else {}
        return {"last": self.last, "versions": [list(each) for each in self.versions], **table}

    @classmethod
    def of(cls, stored: dict[str, Any] | None) -> TopicSchemas:
        """What `stored` said; None: nothing."""
        if not stored:
            return NO_SCHEMAS
        versions = tuple(SchemaVersion(*each) for each in stored["versions"])
        return cls(versions, stored["last"], stored.get("table", False))

    def changed(self, record: dict[str, Any] | None) -> TopicSchemas:
        """After a record of the log: a new version, or, without one, none any more."""
        if record is None:
            return TopicSchemas((), self.last)
        added = SchemaVersion(record["version"], record["type"], record["text"], record["created_ms"])
        return TopicSchemas((*self.versions, added), added.version, self.table)

    def with_table(self, table: bool) -> TopicSchemas:
        """After a record of the log that says so."""
        return self._replace(table=table and bool(self.versions))

    def check_version(self, topic: str, expected: int | None) -> None:
        """Raise `SchemaChanged` unless the current version is that one; 0: there is none. None: whatever it is."""
        current = 0 if self.current is None else self.current.version
        if expected is not None and expected != current:
            now = f"version {current}" if current else "none"
            raise SchemaChanged(f"topic {topic!r} has {now} of a schema now, not version {expected}")


NO_SCHEMAS = TopicSchemas()


class Parsed(NamedTuple):
    """A schema as it is used. `columns`: a STRUCT of them. `ignored`: what of it no column holds. `avro`, `protobuf`:
    what one of that type says."""

    columns: ColumnType
    ignored: tuple[str, ...] = ()
    avro: AvroType | None = None
    protobuf: ProtoMessage | None = None


def parse_schema(type: str, text: str) -> Parsed:
    """What a schema's text says. Raises `InvalidRequest`."""
    if type not in TYPES:
        raise InvalidRequest(f"type is one of {', '.join(TYPES)}, not {type[:100]!r}")
    document = _document(text)
    if type == AVRO:
        avro = parse_avro_schema(document)
        check_defaults(avro)
        parsed = Parsed(avro.columns, (), avro)
    elif type == PROTOBUF:
        message, left_out = parse_protobuf_schema(document)
        parsed = Parsed(message.columns, left_out, protobuf=message)
    else:
        parsed = Parsed(*parse_json_schema(document))
    for field in parsed.columns.fields:
        if field.name.lower() in IN_VIEW:
            raise InvalidRequest(
                f"{field.name!r} is a column of every topic's table: a body's field can't have its name"
            )
    return parsed


def compact(schema: Any) -> str:
    """The text of a schema that came as text, or as JSON. Raises `InvalidRequest`."""
    document = _document(schema) if isinstance(schema, str) and schema.lstrip()[:1] in ("{", "[", '"') else schema
    try:
        text = json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        size = len(text.encode())
    except (ValueError, RecursionError):
        raise InvalidRequest("the schema is no JSON") from None
    if size > TEXT_BYTES_MAX:
        raise InvalidRequest(f"the schema has {size} bytes without spaces; it may have {TEXT_BYTES_MAX}")
    return text


def _document(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidRequest("the schema is no JSON") from None


def next_version(
    schemas: TopicSchemas,
    topic: str,
    type: str,
    text: str,
    now_ms: int,
    expected: int | None,
    number: int | None = None,
) -> tuple[SchemaVersion, Parsed]:
    """The version that the topic gets with this text, or the current one if that says the same, and what it says.
    `number`: which it is to be, as at another broker; None: the next one. Raises `InvalidRequest`,
    `IncompatibleSchema`, `SchemaChanged`."""
    parsed = parse_schema(type, text)
    current = schemas.current
    same = current is not None and (current.type, current.text) == (type, text)
    if current is not None and same and number in (None, current.version):
        return current, parsed  # who asks again, as an answer was lost, isn't told that somebody changed it
    schemas.check_version(topic, expected)
    if len(schemas.versions) >= VERSIONS_MAX:
        raise InvalidRequest(f"topic {topic!r} has {VERSIONS_MAX} versions of its schema; drop it, and start again")
    for each in schemas.versions:
        check_compatible(topic, each, type, parsed)
    number = schemas.last + 1 if number is None else number
    if not schemas.last < number <= VERSION_MAX:
        raise InvalidRequest(f"a new version of topic {topic!r} is {schemas.last + 1} to {VERSION_MAX}, not {number}")
    return SchemaVersion(number, type, text, now_ms), parsed


def check_compatible(topic: str, old: SchemaVersion, type: str, new: Parsed) -> None:
    """Raise `IncompatibleSchema` unless all that fits the old version can be read with the new schema."""
    if old.type != type:
        reasons = [f"bodies are {old.type}"]
    else:
        before = parse_schema(old.type, old.text)
        if before.avro is not None and new.avro is not None:
            reasons = check_avro_readable(before.avro, new.avro)
        elif before.protobuf is not None and new.protobuf is not None:
            reasons = check_protobuf_readable(before.protobuf, new.protobuf)
        else:
            reasons = list(_unreadable(before.columns, new.columns, ""))
    if reasons:
        more = f", and {len(reasons) - REASONS_MAX} more" if len(reasons) > REASONS_MAX else ""
        said = "; ".join(reasons[:REASONS_MAX])[:500]
        raise IncompatibleSchema(f"it can't read bodies of version {old.version} of topic {topic!r}: {said}{more}")


_WIDER: dict[str, frozenset[str]] = {
    BIGINT: frozenset({DOUBLE, JSON}),
    DECIMAL: frozenset({DOUBLE, JSON}),
    DOUBLE: frozenset({JSON}),
    BOOLEAN: frozenset({JSON}),
    STRING: frozenset({JSON}),
    **dict.fromkeys((BINARY, DATE, TIMESTAMP), frozenset({STRING, JSON})),
    **dict.fromkeys((ARRAY, MAP, STRUCT), frozenset({JSON})),
    JSON: frozenset(),
}
"""By a kind, which others have all its JSON values too."""
_DIGITS_OF_BIGINT = 19


def _unreadable(old: ColumnType, new: ColumnType, path: str) -> Iterator[str]:
    """What of the new type can't hold what the old one does."""
    where = path.removeprefix(".") or "the body"
    if old.kind != new.kind:
        if not _is_wider(old, new):
            yield f"{where} was {old.kind}, and would be {new.kind}"
    elif old.of is not None and new.of is not None:
        yield from _unreadable(old.of, new.of, f"{path}{'[]' if old.kind == ARRAY else '.*'}")
    elif old.kind == DECIMAL and (new.scale < old.scale or new.precision - new.scale < old.precision - old.scale):
        yield f"{where} was {in_sql(old)}, and would be {in_sql(new)}"
    before = {field.name: field for field in old.fields}
    for field in new.fields if old.kind == new.kind else ():
        was = before.get(field.name)
        if field.required and (was is None or not was.required):
            yield f"{f'{path}.{field.name}'.removeprefix('.')} would be required"
        elif was is not None:
            yield from _unreadable(was.type, field.type, f"{path}.{field.name}")


def _is_wider(old: ColumnType, new: ColumnType) -> bool:
    if new.kind == DECIMAL and old.kind == BIGINT:
        return new.precision - new.scale >= _DIGITS_OF_BIGINT
    if new.kind == MAP and old.kind == STRUCT and new.of is not None:
        return new.of.kind == JSON
    return new.kind in _WIDER[old.kind]


_MAGIC = b"\x00"
_HEADER_BYTES = 5


def make_decoder(versions: Sequence[SchemaVersion]) -> Decode:
    """Reads bodies with the last of these, whichever of them they were written with.

    A body may begin with the five bytes of Confluent's wire format: a zero, and a number that says the schema. Of a
    JSON body they are passed over, and of a Protobuf body, whose fields have numbers of their own. Avro says nothing of
    its writer's schema: it is the version of that number, else the one that was current when the body was stored, else
    the newest by which the body can be read to its end."""
    current = versions[-1]
    parsed = parse_schema(current.type, current.text)
    if parsed.protobuf is not None:
        decode_protobuf = decoder_of_protobuf(parsed.protobuf)
        return lambda body, _: decode_protobuf(body)
    if parsed.avro is None:
        decode_json = decoder_of_json(parsed.columns)
        return lambda body, _: decode_json(body[_HEADER_BYTES:] if body[:1] == _MAGIC else body)
    reader = parsed.avro
    decoders = [(each, decoder_of_avro(_avro(each), reader)) for each in versions]

    def decode(body: bytes, store_time_ms: int) -> dict[str, Any]:
        framed = body[:1] == _MAGIC and len(body) >= _HEADER_BYTES
        number = int.from_bytes(body[1:_HEADER_BYTES], "big") if framed else 0
        named = [read for each, read in decoders if framed and each.version == number]
        then = [read for each, read in decoders if each.created_ms <= store_time_ms][-1:]
        order = list(dict.fromkeys((*then, *(read for _, read in reversed(decoders)))))
        tries = [(read, _HEADER_BYTES) for read in named] + [(read, 0) for read in order]
        tries += [(read, _HEADER_BYTES) for read in order if framed]
        first: Misfit | None = None
        for read, begin in tries:
            try:
                return read(body, begin)
            except Misfit as misfit:
                first = first or misfit
        assert first is not None
        raise first

    return decode


def _avro(version: SchemaVersion) -> AvroType:
    found = parse_schema(version.type, version.text).avro
    assert found is not None
    return found
