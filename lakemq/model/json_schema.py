"""JSON Schema (draft 2020-12, and what older drafts have in common with it) as columns.

What makes a column's type is read: `type`, `format`, `properties`, `required`, `items`, `additionalProperties`,
`multipleOf`, `contentEncoding`, `anyOf`/`oneOf`/`allOf`, `enum`, `const` and `$ref` within the schema. Other keywords
restrict values, which no column does: `ignored` names those that a schema has.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any, NamedTuple, cast

from lakemq.model import column_type
from lakemq.model.column_type import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    JSON,
    PRECISION_MAX,
    STRING,
    STRUCT,
    TIMESTAMP,
    ColumnField,
    ColumnType,
    array_of,
    map_of,
    struct_of,
)
from lakemq.model.errors import InvalidRequest

DEPTH_MAX = 8
"""Objects and arrays within each other."""
NODES_MAX = 1_000
"""Of a schema, each `$ref` counted as often as it is used."""
KEYS_MAX = 20_000
"""Of all parts together: a `$ref` is as long as what it stands for."""
NAME_CHARACTERS_MAX = 128
SYMBOL_BYTES_MAX = 128
"""Of an enum, as text: a body names it in a byte or two, and each element of an array becomes all of it."""
_REFS_MAX = 16
_SHOWN = 60

_READ = frozenset(
    (
        "type", "format", "properties", "required", "items", "additionalProperties", "multipleOf", "contentEncoding",
        "anyOf", "oneOf", "allOf", "$ref", "$schema", "$id", "$anchor", "$comment", "$defs", "definitions", "title",
        "description", "default", "examples", "deprecated", "readOnly", "writeOnly",
    )
)  # fmt: skip
_ANY = ColumnType(JSON)
_SCALARS = {"boolean": BOOLEAN, "integer": BIGINT, "string": STRING}


class JsonSchema(NamedTuple):
    """`columns`: a STRUCT of them. `ignored`: keywords that the schema has and columns don't hold."""

    columns: ColumnType
    ignored: tuple[str, ...]


def parse_json_schema(document: Any) -> JsonSchema:
    """What the document says of bodies, which have to be objects. Raises `InvalidRequest`."""
    walk = _Walk(document)
    columns, _ = walk.node(document, "$", 0)
    if columns.kind != STRUCT:
        raise InvalidRequest("the schema is of no object with properties: only their fields can be columns")
    return JsonSchema(columns, tuple(sorted(walk.ignored)))


class _Walk:
    """Over one document. Each method answers a type, and whether null fits too."""

    def __init__(self, document: Any) -> None:
        self._document = document
        self._nodes = self._keys = 0
        self.ignored: set[str] = set()

    def node(self, said: Any, path: str, depth: int) -> tuple[ColumnType, bool]:
        self._nodes += 1
        if self._nodes > NODES_MAX:
            raise InvalidRequest(f"the schema has more than {NODES_MAX} parts")
        if depth > DEPTH_MAX:
            raise InvalidRequest(
                f"{path[:_SHOWN]}: more than {DEPTH_MAX} objects within each other, or it is recursive"
            )
        if said is True:
            return _ANY, True
        if not isinstance(said, dict):
            raise _wrong(path, "is no schema")
        return self._object(self._resolved(cast("dict[str, Any]", said), path), path, depth)

    def _resolved(self, said: dict[str, Any], path: str) -> dict[str, Any]:
        """With what `$ref`, and an `allOf` of one, stand for in their place."""
        for _ in range(_REFS_MAX):
            target: Any
            if "$ref" in said:
                target, name = self._target(said["$ref"], path), "$ref"
            elif isinstance(said.get("allOf"), list) and len(said["allOf"]) == 1:
                target, name = said["allOf"][0], "allOf"
            else:
                return said
            if not isinstance(target, dict):
                raise _wrong(path, f"{name} names no schema")
            found = cast("dict[str, Any]", target)
            self._count(len(found) + len(said))
            said = {**found, **{key: each for key, each in said.items() if key != name}}
        raise _wrong(path, "is recursive")

    def _count(self, keys: int) -> None:
        self._keys += keys
        if self._keys > KEYS_MAX:
            raise InvalidRequest(f"the schema's parts have more than {KEYS_MAX} keys")

    def _target(self, ref: Any, path: str) -> Any:
        if not isinstance(ref, str) or not (ref == "#" or ref.startswith("#/")):
            raise _wrong(path, "a $ref leads out of the schema: only #/... is read")
        found = self._document
        for part in ref[2:].split("/") if ref != "#" else ():
            key = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or key not in found:
                raise _wrong(path, f"there is no {ref[:_SHOWN]!r}")
            found = cast("dict[str, Any]", found)[key]
        return found

    def _object(self, said: dict[str, Any], path: str, depth: int) -> tuple[ColumnType, bool]:
        self._count(len(said))
        self.ignored |= {key[:NAME_CHARACTERS_MAX] for key in said.keys() - _READ}
        for name in ("anyOf", "oneOf"):
            if isinstance(said.get(name), list):
                return self._one_of(said[name], path, depth)
        if "allOf" in said:
            self.ignored.add("allOf")
        names = _types(said, path)
        kinds = [each for each in names if each != "null"]
        if set(kinds) == {"integer", "number"}:
            kinds = ["number"]
        nullable = "null" in names
        if len(kinds) != 1:
            return _ANY, nullable or not names
        return self._typed(kinds[0], said, path, depth), nullable

    def _one_of(self, options: list[Any], path: str, depth: int) -> tuple[ColumnType, bool]:
        found: list[ColumnType] = []
        nullable = False
        for option in options:
            if option == {"type": "null"}:
                nullable = True
                continue
            type, also_null = self.node(option, path, depth + 1)
            nullable = nullable or also_null
            found += [] if type in found else [type]
        if {each.kind for each in found} == {BIGINT, DOUBLE}:
            found = [ColumnType(DOUBLE)]
        return (found[0] if len(found) == 1 else _ANY), nullable

    def _typed(self, name: str, said: dict[str, Any], path: str, depth: int) -> ColumnType:
        if name == "object":
            return self._fields(said, path, depth)
        if name == "array":
            items = said.get("items")
            return array_of(_ANY if items is None else self.node(items, f"{path}[]", depth + 1)[0])
        if name == "number":
            return _number(said, path)
        if name == "string":
            return ColumnType(_text_kind(said))
        if name not in _SCALARS:
            raise _wrong(path, f"type {name[:_SHOWN]!r} is none of JSON Schema's")
        return ColumnType(_SCALARS[name])

    def _fields(self, said: dict[str, Any], path: str, depth: int) -> ColumnType:
        properties = said.get("properties")
        more = said.get("additionalProperties")
        if not properties:
            return map_of(_ANY if not isinstance(more, dict) else self.node(more, f"{path}.*", depth + 1)[0])
        if not isinstance(properties, dict):
            raise _wrong(path, "properties is an object")
        if more is not None and more is not True:
            self.ignored.add("additionalProperties")
        required = said.get("required", [])
        if not isinstance(required, list):
            raise _wrong(path, "required is a list of names")
        fields = list[ColumnField]()
        for key, each in cast("dict[str, Any]", properties).items():
            type, nullable = self.node(each, f"{path}.{key}", depth + 1)
            fields.append(ColumnField(key, type, key in required and not nullable))
        check_names([field.name for field in fields], path)
        return struct_of(*fields)


def check_names(names: Iterable[str], path: str) -> None:
    """Raise `InvalidRequest` for names that can't be columns beside each other: SQL doesn't tell `a` from `A`."""
    seen: dict[str, str] = {}
    for name in names:
        if not name or len(name) > NAME_CHARACTERS_MAX or not name.isprintable():
            raise _wrong(path, f"a field's name has 1 to {NAME_CHARACTERS_MAX} characters that can be shown")
        if "${" in name:
            raise _wrong(path, "no name has `${` in it, which stands for a variable in SQL")
        if name.lower() in seen:
            raise _wrong(path, f"{seen[name.lower()]!r} and {name!r} would be the same column: SQL ignores case")
        seen[name.lower()] = name


def _types(said: dict[str, Any], path: str) -> list[str]:
    """The names of the types that fit; none: all."""
    said_type = said.get("type")
    if said_type is None:
        return _types_of_values(said)
    names = cast("list[Any]", said_type if isinstance(said_type, list) else [said_type])
    if not names or not all(isinstance(each, str) for each in names):
        raise _wrong(path, "type is a name, or a list of names")
    return list(dict.fromkeys(names))


def _types_of_values(said: dict[str, Any]) -> list[str]:
    """Where no type is said, of what else is."""
    if "properties" in said:
        return ["object"]
    if "items" in said:
        return ["array"]
    values: Any = said["enum"] if isinstance(said.get("enum"), list) else [said["const"]] if "const" in said else []
    return list(dict.fromkeys(json_type_of(each) for each in values))


def json_type_of(value: Any) -> str:
    """JSON Schema's name of the type of a value, as `json` reads it."""
    return _TYPE_NAMES[type(value)]


_TYPE_NAMES: dict[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    Decimal: "number",
    str: "string",
    list: "array",
    dict: "object",
    type(None): "null",
}


def _number(said: dict[str, Any], path: str) -> ColumnType:
    """A DECIMAL where the schema says how many digits stand behind the point: `"multipleOf": 0.01`."""
    step = said.get("multipleOf")
    if step is None:
        return ColumnType(DOUBLE)
    if isinstance(step, bool) or not isinstance(step, int | float) or not step > 0:
        raise _wrong(path, "multipleOf is a number above 0")
    sign, digits, exponent = Decimal(str(step)).normalize().as_tuple()
    if sign == 0 and digits == (1,) and isinstance(exponent, int) and -PRECISION_MAX < exponent < 0:
        return column_type.decimal(PRECISION_MAX, -exponent)
    return ColumnType(DOUBLE)


_BY_FORMAT = {"date-time": TIMESTAMP, "date": DATE}


def _text_kind(said: dict[str, Any]) -> str:
    if said.get("contentEncoding") == "base64":
        return BINARY
    form = said.get("format")
    return _BY_FORMAT.get(form, STRING) if isinstance(form, str) else STRING


def _wrong(path: str, what: str) -> InvalidRequest:
    return InvalidRequest(f"the schema at {path[:_SHOWN]}: {what}")
