"""Descriptor sets and bodies of Protobuf, made by Google's own library."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)

Members = Mapping[str, "str | int"]
"""By name: a message's fields, such as `3 repeated int32`, `4 optional string`, `5 map<string,Line>` or `6 oneof:which
bool`; in an edition also `7 IMPLICIT int32`, with a feature; or an enum's numbers."""

pb: Any = descriptor_pb2
_TYPE: Any = pb.FieldDescriptorProto.Type
_LABELS = {"optional": 1, "required": 2, "repeated": 3}
_EDITIONS = {"2023": 1000, "2024": 1001}
_FEATURES = {
    **dict.fromkeys(("EXPLICIT", "IMPLICIT", "LEGACY_REQUIRED"), "field_presence"),
    **dict.fromkeys(("LENGTH_PREFIXED", "DELIMITED"), "message_encoding"),
}
_KNOWN: tuple[Any, ...] = (timestamp_pb2, duration_pb2, wrappers_pb2, struct_pb2)


def files_of(package: str = "t", syntax: str = "proto3", /, **types: Members) -> Any:
    """A FileDescriptorSet: the well-known types, and a file with these. `syntax`: or an edition, such as `2023`."""
    found = pb.FileDescriptorSet()
    for each in _KNOWN:
        each.DESCRIPTOR.CopyToProto(found.file.add())
    file = found.file.add(name="t.proto", package=package, syntax=syntax)
    if syntax in _EDITIONS:
        file.syntax, file.edition = "editions", _EDITIONS[syntax]
    file.dependency.extend(each.name for each in found.file[:-1])
    enums = [name for name, members in types.items() if all(isinstance(each, int) for each in members.values())]
    for name, members in types.items():
        if members and name in enums:
            made = file.enum_type.add(name=name)
            for symbol, number in members.items():
                made.value.add(name=symbol, number=number)
        else:
            _add_message(file, name, members, [each for each in enums if types[each]])
    return found


def _add_message(file: Any, name: str, members: Members, enums: list[str]) -> None:
    message = file.message_type.add(name=name)
    for field_name, said in members.items():
        number, *words = str(said).split()
        field = message.field.add(name=field_name, number=int(number), label=1)
        for word in words[:-1]:
            if word in _LABELS:
                field.label = _LABELS[word]
            elif word.startswith("oneof:"):
                field.oneof_index = _oneof(message, word.removeprefix("oneof:"))
            elif word in _FEATURES:
                set_features(field, word)
            elif word.startswith("default="):
                field.default_value = word.removeprefix("default=")
        if "optional" in words and file.syntax == "proto3":
            field.proto3_optional = True
        _set_type(file, message, field, words[-1], enums)
    for field in message.field:
        if field.proto3_optional:  # their oneofs come last
            field.oneof_index = _oneof(message, f"_{field.name}")


def _oneof(message: Any, name: str) -> int:
    names = [each.name for each in message.oneof_decl]
    if name not in names:
        message.oneof_decl.add(name=name)
        return len(names)
    return names.index(name)


def _set_type(file: Any, message: Any, field: Any, type: str, enums: list[str]) -> None:
    scope = f".{file.package}" if file.package else ""
    if type.startswith("map<"):
        key, value = type[4:-1].split(",")
        entry = message.nested_type.add(name=f"{field.name.title()}Entry")
        entry.options.map_entry = True
        for number, (name, each) in enumerate((("key", key), ("value", value)), 1):
            _set_type(file, entry, entry.field.add(name=name, number=number, label=1), each, enums)
        field.label = 3
        field.type = 11
        field.type_name = f"{scope}.{message.name}.{entry.name}"
    elif f"TYPE_{type.upper()}" in _TYPE.keys():  # noqa: SIM118 (it is no dict)
        field.type = _TYPE.Value(f"TYPE_{type.upper()}")
    else:
        field.type = 14 if type in enums else 11
        field.type_name = f".{type}" if "." in type else f"{scope}.{type}"


def set_features(declared: Any, *values: str) -> None:
    """Of a file, a message, a oneof or a field: as its options say them."""
    for value in values:
        feature = pb.FeatureSet.DESCRIPTOR.fields_by_name[_FEATURES[value]]
        number = feature.enum_type.values_by_name[value].number
        setattr(declared.options.features, feature.name, number)


def schema_of(files: Any, message: str = "t.M") -> dict[str, str]:
    """As it is set for a topic."""
    return {"message": message, "descriptor_set": base64.b64encode(files.SerializeToString()).decode()}


def class_of(files: Any, message: str = "t.M") -> Any:
    """What makes bodies of that message."""
    pool = descriptor_pool.DescriptorPool()
    for each in files.file:
        pool.Add(each)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(message))
