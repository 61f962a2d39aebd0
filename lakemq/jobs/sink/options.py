"""The options of `format("lakemq")` for writing, read and checked before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegralType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from lakemq.jobs.errors import InvalidOption
from lakemq.jobs.log_client import check_token
from lakemq.model.message_columns import GIVEN_TO_SINK, Column, Kind

_TYPES: dict[Kind, tuple[type[DataType], ...]] = {
    Kind.BYTES: (BinaryType, StringType),
    Kind.TEXT: (StringType,),
    Kind.TEXTS: (ArrayType,),
    Kind.MAP: (MapType,),
    Kind.INT: (IntegralType,),
    Kind.LONG: (IntegralType,),
    Kind.TIME: (TimestampType,),
}
_INTEGER = dict.fromkeys((Kind.INT, Kind.LONG), "an integer")
_SPECIAL = {Kind.TEXTS: "array<string>", Kind.MAP: "map<string,string>", **_INTEGER}

COLUMNS: dict[str, Column] = {column.lake_name: column for column in GIVEN_TO_SINK}
"""What a message can be made of; only `body` is needed."""
_GIVEN_BY_SPARK = frozenset({"path", "checkpointlocation"})
_NAMES = ("broker", "nameservers", "topic", "group", "sink", "batch", "progress", "retrySeconds", "token")
PROGRESS_CHARACTERS_MAX = 4_096
RETRY_S_MAX = 3_600


@dataclass(frozen=True)
class SinkOptions:
    """Where messages go. `broker`: the address of a gateway, or with `nameservers` the name of a broker that these
    know; `name` is that then, once the address is known. `group`: only that consumer group gets them. `sink` and
    `batch` name what is written, so that it is written once however often it is tried; `progress` is kept with the
    sink. `token`: by which it says who it is; None: that of where it runs."""

    broker: str
    topic: str
    group: str | None = None
    sink: str | None = None
    batch: int | None = None
    progress: str = ""
    retry_s: int = 30
    nameservers: tuple[str, ...] = ()
    name: str = ""
    token: str | None = field(default=None, repr=False)


def parse_sink_options(options: Mapping[str, str], streaming: bool) -> SinkOptions:
    """Reads the options, whose names Spark compares without case; raises `InvalidOption`."""
    given = {name.lower(): value for name, value in options.items() if name.lower() not in _GIVEN_BY_SPARK}
    known = {name.lower() for name in _NAMES}
    for name in given:
        if name not in known:
            raise InvalidOption(f"unknown option {name!r} for writing; there are {', '.join(_NAMES)}")
    for name in ("broker", "topic"):
        if not given.get(name):
            raise InvalidOption(f"option {name!r} is needed to write")
    if "," in given["broker"]:
        raise InvalidOption("option 'broker' names one gateway: a batch is committed at one, as a whole")
    if streaming and not {"sink", "batch", "progress"}.isdisjoint(given):
        raise InvalidOption(
            "a stream's batches are numbered by its checkpoint: sink, batch and progress are not for it"
        )
    if ("sink" in given) != ("batch" in given):
        raise InvalidOption("give both 'sink' and 'batch', or neither")
    if len(given.get("progress", "")) > PROGRESS_CHARACTERS_MAX:
        raise InvalidOption(f"option 'progress' has more than {PROGRESS_CHARACTERS_MAX} characters")
    if "token" in given:
        check_token(given["token"])
    return SinkOptions(
        broker=given["broker"],
        topic=given["topic"],
        group=given.get("group"),
        sink=given.get("sink"),
        batch=_number("batch", given["batch"], 2**63 - 1) if "batch" in given else None,
        progress=given.get("progress", ""),
        nameservers=tuple(each.strip() for each in given.get("nameservers", "").split(",") if each.strip()),
        token=given.get("token"),
        retry_s=_number("retrySeconds", given.get("retryseconds", "30"), RETRY_S_MAX),
    )


def _number(name: str, value: str, most: int) -> int:
    if not value.isascii() or not value.isdigit() or len(value) > 19 or int(value) > most:
        raise InvalidOption(f"option {name!r} can't be {value[:100]!r}: a number from 0 to {most}")
    return int(value)


def check_columns(schema: StructType) -> None:
    """Raise `InvalidOption` unless messages can be made of rows of this schema."""
    if "body" not in schema.fieldNames():
        raise InvalidOption("a message needs a column 'body': text or bytes")
    for each in schema.fields:
        if each.name not in COLUMNS:
            raise InvalidOption(f"column {each.name!r} is no part of a message; there are {', '.join(COLUMNS)}")
        kind = each.dataType
        column = COLUMNS[each.name]
        if not isinstance(kind, _TYPES[column.kind]) or not _holds_text(kind):
            raise InvalidOption(f"column {each.name!r} can't be {kind.simpleString()}; it is {_wanted(column.kind)}")


def _holds_text(kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return isinstance(kind.elementType, StringType)
    if isinstance(kind, MapType):
        return isinstance(kind.keyType, StringType) and isinstance(kind.valueType, StringType)
    return True


def _wanted(kind: Kind) -> str:
    return _SPECIAL.get(kind) or " or ".join(each.typeName() for each in _TYPES[kind])
