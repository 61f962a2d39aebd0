"""Values as JSON."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from decimal import Decimal
from enum import Enum
from typing import Any

import orjson

from lakemq.model.errors import InvalidRequest


def json_of(value: object) -> bytes:
    """The JSON of a value: what JSON has, and dataclasses, pydantic models, attrs classes, enums, dates, UUIDs, and
    decimals as text. Raises `InvalidRequest` for anything else, for NaN and infinity, and for what holds itself."""
    try:
        text = orjson.dumps(value, default=_plain)
    except TypeError as error:
        raise InvalidRequest(f"the value can't be JSON: {error.__cause__ or error}") from None
    if b"null" in text:
        _check_numbers(value)
    return text


def attributes_of(value: Any) -> dict[str, Any] | None:
    """The fields of a dataclass's or an attrs class's instance; None for anything else."""
    if isinstance(value, type):
        return None
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    attributes: Any = getattr(value.__class__, "__attrs_attrs__", None)
    if attributes is None:
        return None
    return {attribute.alias: getattr(value, attribute.name) for attribute in attributes}


def is_model(value: object) -> bool:
    """Whether it is an instance of a pydantic model."""
    return hasattr(type(value), "model_dump_json") and hasattr(type(value), "model_validate_json")


def _plain(value: Any) -> Any:
    """What stands for a value that JSON doesn't have."""
    if is_model(value):
        return value.model_dump(mode="json", by_alias=True)
    if isinstance(value, Decimal):
        return str(value)
    attributes = attributes_of(value)
    if attributes is None:
        raise TypeError(f"there is no JSON for a {type(value).__name__}")
    return attributes


def _check_numbers(value: object) -> None:
    """`orjson` writes NaN and infinity as null: where there is a null, the standard library says whether it was one."""
    try:
        json.dumps(value, allow_nan=False, default=_shown)
    except ValueError:
        raise InvalidRequest("the value can't be JSON, which has neither NaN nor infinity") from None


def _shown(value: Any) -> Any:
    """As `_plain`, also for what `orjson` knows by itself."""
    if isinstance(value, Enum):
        return value.value
    if attributes_of(value) is None and not is_model(value):
        return None
    return _plain(value)
