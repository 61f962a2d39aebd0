"""Avro's schemas (specification 1.12) as columns, and which of them reads what another has written.

Types become those that Spark's own reader of Avro gives them; a union of several types that aren't null is a STRUCT of
`member0`, `member1`, …, of which one is given. A type that has itself in it can't be columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeGuard, cast

from lakemq.model.column_type import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    PRECISION_MAX,
    STRING,
    TIMESTAMP,
    ColumnField,
    ColumnType,
    array_of,
    decimal,
    map_of,
    struct_of,
)
from lakemq.model.errors import InvalidRequest
from lakemq.model.json_schema import DEPTH_MAX, NODES_MAX, SYMBOL_BYTES_MAX, check_names

_SHOWN = 60
PRIMITIVES = {
    "null": STRING, "boolean": BOOLEAN, "int": INT, "long": BIGINT, "float": FLOAT, "double": DOUBLE,
    "bytes": BINARY, "string": STRING,
}  # fmt: skip
"""By Avro's name, Spark's."""
PROMOTED = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
"""What also reads what is written as that."""


class AvroType(NamedTuple):
    """One type. `name`: without its namespace. `size`: of a fixed. `of`: an array's elements, or a map's values.
    `columns`: what it is as a column."""

    kind: str
    columns: ColumnType
    name: str = ""
    aliases: tuple[str, ...] = ()
    fields: tuple[AvroField, ...] = ()
    symbols: tuple[str, ...] = ()
    default_symbol: str | None = None
    size: int = 0
    of: AvroType | None = None
    branches: tuple[AvroType, ...] = ()
    logical: str = ""


class AvroField(NamedTuple):
    """A field of a record. `default`: as the schema has it."""

    name: str
    type: AvroType
    has_default: bool = False
    default: Any = None
    aliases: tuple[str, ...] = ()


def parse_avro_schema(document: Any) -> AvroType:
    """What the document says: a record. Raises `InvalidRequest`."""
    found = _Walk().type(document, "", 0)
    if found.kind != "record" or not found.fields:
        raise InvalidRequest("the schema is no record with fields: only these can be columns")
    return found


class _Walk:
    def __init__(self) -> None:
        self._named: dict[str, AvroType | None] = {}
        self._nodes = 0

    def type(self, said: Any, path: str, depth: int) -> AvroType:
        self._nodes += 1
        if self._nodes > NODES_MAX:
            raise InvalidRequest(f"the schema has more than {NODES_MAX} parts")
        if depth > DEPTH_MAX:
            raise _wrong(path, f"more than {DEPTH_MAX} types within each other")
        if isinstance(said, list):
            return self._union(cast("list[Any]", said), path, depth)
        if isinstance(said, str):
            return self._by_name(said, path)
        if not isinstance(said, dict):
            raise _wrong(path, "it is no schema")
        node = cast("dict[str, Any]", said)
        kind = node.get("type")
        if kind in ("record", "error", "enum", "fixed"):
            return self._of_a_name(str(kind), node, path, depth)
        if kind == "array":
            of = self.type(node.get("items"), f"{path}[]", depth + 1)
            return AvroType("array", array_of(of.columns), of=of)
        if kind == "map":
            of = self.type(node.get("values"), f"{path}.*", depth + 1)
            return AvroType("map", map_of(of.columns), of=of)
        found = self.type(kind, path, depth + 1)
        return _logical(found, node) if found.kind in PRIMITIVES else found

    def _by_name(self, said: str, path: str) -> AvroType:
        if said in PRIMITIVES:
            return AvroType(said, ColumnType(PRIMITIVES[said]))
        name = said.rpartition(".")[2]
        if name not in self._named:
            raise _wrong(path, f"there is no type {said[:_SHOWN]!r}")
        found = self._named[name]
        if found is None:
            raise _wrong(path, f"{said[:_SHOWN]!r} has itself in it, which can't be columns")
        self._nodes += _size(found)
        return found

    def _union(self, said: list[Any], path: str, depth: int) -> AvroType:
        branches = tuple(self.type(each, path, depth + 1) for each in said)
        if any(each.kind == "union" for each in branches):
            raise _wrong(path, "a union has no union in it")
        others = [each for each in branches if each.kind != "null"]
        if not others:
            raise _wrong(path, "a union has a type that isn't null")
        kinds = {each.columns.kind for each in others}
        if len(others) == 1:
            columns = others[0].columns
        elif kinds in ({INT, BIGINT}, {FLOAT, DOUBLE}):
            columns = ColumnType(BIGINT if BIGINT in kinds else DOUBLE)
        else:
            columns = struct_of(*(ColumnField(f"member{at}", each.columns) for at, each in enumerate(others)))
        return AvroType("union", columns, branches=branches)

    def _of_a_name(self, kind: str, node: dict[str, Any], path: str, depth: int) -> AvroType:
        said = node.get("name")
        if not isinstance(said, str) or not said:
            raise _wrong(path, f"a {kind[:_SHOWN]} has a name")
        name = said.rpartition(".")[2]
        if name in self._named:
            raise _wrong(path, f"two types are called {name[:_SHOWN]!r}")
        self._named[name] = None
        aliases = tuple(str(each).rpartition(".")[2] for each in _list(node, "aliases", path))
        if kind == "enum":
            symbols = tuple(str(each) for each in _list(node, "symbols", path))
            if any(len(each.encode()) > SYMBOL_BYTES_MAX for each in symbols):
                raise _wrong(path, f"a symbol of its enum has more than {SYMBOL_BYTES_MAX} bytes")
            default = node.get("default")
            found = AvroType(
                "enum", ColumnType(STRING), name, aliases, symbols=symbols,
                default_symbol=default if isinstance(default, str) and default in symbols else None,
            )  # fmt: skip
        elif kind == "fixed":
            size = node.get("size")
            if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= 2**20:
                raise _wrong(path, "a fixed has a size, of 1 byte to 1 MiB")
            found = _logical(AvroType("fixed", ColumnType(BINARY), name, aliases, size=size), node)
        else:
            fields = tuple(self._field(each, path, depth) for each in _list(node, "fields", path))
            check_names([each.name for each in fields], path or "$")
            columns = struct_of(*(ColumnField(each.name, each.type.columns) for each in fields))
            found = AvroType("record", columns, name, aliases, fields)
        self._named[name] = found
        return found

    def _field(self, said: Any, path: str, depth: int) -> AvroField:
        if not isinstance(said, dict):
            raise _wrong(path, "a field is an object with a name and a type")
        node = cast("dict[str, Any]", said)
        name = node.get("name")
        if not isinstance(name, str):
            raise _wrong(path, "a field has a name")
        type = self.type(node.get("type"), f"{path}.{name}"[:200], depth + 1)
        aliases = tuple(str(each) for each in _list(node, "aliases", path))
        return AvroField(name, type, "default" in node, node.get("default"), aliases)


def _size(type: AvroType) -> int:
    inner = [*type.branches, *(field.type for field in type.fields), *([type.of] if type.of is not None else [])]
    return 1 + sum(map(_size, inner))


def _list(node: dict[str, Any], name: str, path: str) -> list[Any]:
    said = node.get(name, [])
    if not isinstance(said, list):
        raise _wrong(path, f"{name} is a list")
    return cast("list[Any]", said)


def _logical(type: AvroType, node: dict[str, Any]) -> AvroType:
    """With its logical type, if that is one that a column has; others are as if they weren't there, as Avro says."""
    said = node.get("logicalType")
    of_int = {"date": DATE} if type.kind == "int" else {}
    of_long = dict.fromkeys(("timestamp-millis", "timestamp-micros"), TIMESTAMP) if type.kind == "long" else {}
    column = {**of_int, **of_long}.get(said) if isinstance(said, str) else None
    if column is not None:
        return type._replace(columns=ColumnType(column), logical=str(said))
    precision, scale = node.get("precision"), node.get("scale", 0)
    is_decimal = said == "decimal" and type.kind in ("bytes", "fixed")
    if is_decimal and _is_int(precision) and _is_int(scale) and 0 <= scale <= precision <= PRECISION_MAX:
        return type._replace(columns=decimal(precision, scale), logical="decimal") if precision > 0 else type
    return type


def _is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _wrong(path: str, what: str) -> InvalidRequest:
    return InvalidRequest(f"the schema at {path.removeprefix('.')[:_SHOWN] or 'its top'}: {what}")


def check_avro_readable(writer: AvroType, reader: AvroType) -> list[str]:
    """Why the reader can't read all that the writer may write, by the specification's "Schema Resolution"; none: it
    can."""
    return list(_unreadable(writer, reader, ""))


def can_read(writer: AvroType, reader: AvroType) -> bool:
    """Whether it can read all of that."""
    return next(_unreadable(writer, reader, ""), None) is None


def _unreadable(writer: AvroType, reader: AvroType, path: str) -> Iterator[str]:
    where = path.removeprefix(".") or "the body"
    if writer.kind == "union":
        for branch in writer.branches:
            yield from _unreadable(branch, reader, path)
    elif reader.kind == "union":
        if not any(can_read(writer, branch) for branch in reader.branches):
            yield f"{where} was {_shown(writer)}, and would be none of {', '.join(map(_shown, reader.branches))}"
    elif not matches(writer, reader):
        yield f"{where} was {_shown(writer)}, and would be {_shown(reader)}{_why(writer, reader)}"
    else:
        yield from _unreadable_within(writer, reader, path)


def _unreadable_within(writer: AvroType, reader: AvroType, path: str) -> Iterator[str]:
    """Where the two are of the same kind."""
    if writer.kind == "enum":
        lost = [each for each in writer.symbols if each not in reader.symbols]
        if lost and reader.default_symbol is None:
            yield f"{path.removeprefix('.')} had the symbol {lost[0][:_SHOWN]}, and there would be no default"
    elif writer.of is not None and reader.of is not None:
        yield from _unreadable(writer.of, reader.of, f"{path}{'[]' if writer.kind == 'array' else '.*'}")
    written = by_name(writer)
    for field in reader.fields:
        was = written_as(written, field)
        if was is not None:
            yield from _unreadable(was.type, field.type, f"{path}.{field.name}")
        elif not field.has_default:
            yield f"{f'{path}.{field.name}'.removeprefix('.')} is new, and has no default"


def by_name(record: AvroType) -> dict[str, AvroField]:
    """Its fields."""
    return {each.name: each for each in record.fields}


def written_as(written: dict[str, AvroField], field: AvroField) -> AvroField | None:
    """Which of the writer's fields this one reads, by its name, or one of its aliases."""
    return next((written[name] for name in (field.name, *field.aliases) if name in written), None)


def matches(writer: AvroType, reader: AvroType) -> bool:
    """Whether the one may be read as the other, as far as can be said without what is in them. Neither is a union.

    A logical type says how to read what is written, so one may be added, or taken away, as for the specification
    it is the type below that counts. Two that differ would make other values of what is written.
    """
    if writer.kind != reader.kind:
        return reader.kind in PROMOTED.get(writer.kind, ()) and not (writer.logical or reader.logical)
    if writer.logical and reader.logical and (writer.logical, writer.columns) != (reader.logical, reader.columns):
        return False
    if writer.kind in ("record", "enum", "fixed"):
        return writer.size == reader.size and writer.name in (reader.name, *reader.aliases)
    return True


def _why(writer: AvroType, reader: AvroType) -> str:
    if writer.kind == reader.kind and writer.logical and reader.logical:
        return ": what is written would have another value"
    if reader.kind in PROMOTED.get(writer.kind, ()):
        return f": with a logicalType, a type stays {writer.kind}"
    return ""


def _shown(type: AvroType) -> str:
    if type.logical == "decimal":
        return f"decimal({type.columns.precision},{type.columns.scale})"
    return type.logical or type.name[:_SHOWN] or type.kind
