"""JSON values as a column's: a value fits its type, or there is a `Misfit` that says where and why."""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation, localcontext
from typing import Any, NoReturn, cast

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
    has_kind,
)
from lakemq.model.json_schema import json_type_of
from lakemq.model.row_room import VALUES_MAX, room_of

ERROR_CHARACTERS_MAX = 300
TOO_MANY = f"as columns it would be more than {VALUES_MAX} values, and more than it has bytes"
_LEAST, _MOST = -(2**63), 2**63 - 1
_EXACT = 2**53
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_DATE_TIME = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})?", re.ASCII)

Fitted = Callable[[Any], Any]
"""Makes a column's value of JSON's, which isn't null. Raises `Misfit`."""


class Misfit(Exception):
    """A body doesn't fit. `path`: where in it, innermost first."""

    def __init__(self, what: str, *path: str) -> None:
        super().__init__(what)
        self.what = what
        self.path = list(path)

    def within(self, part: str) -> Misfit:
        """The same, seen from outside."""
        self.path.append(part)
        return self

    def __str__(self) -> str:
        where = "".join(reversed(self.path)).removeprefix(".")
        said = f"{where}: {self.what}" if where else self.what
        return said[:ERROR_CHARACTERS_MAX].encode(errors="replace").decode()  # a key may be half a character of UTF-16


def decoder_of_json(columns: ColumnType) -> Callable[[bytes], dict[str, Any]]:
    """Makes a row of a body: a value by each of the columns, which are a STRUCT. Raises `Misfit`."""
    fit = _struct(columns)
    parse_float = Decimal if has_kind(columns, DECIMAL) else None
    room = room_of(columns)

    def decode(body: bytes) -> dict[str, Any]:
        value = parse_body(body, parse_float)
        if room.is_over(value, len(body), body.count(b",") + body.count(b"[") + body.count(b"{")):
            raise Misfit(TOO_MANY)
        return fit(value)

    return decode


def parse_body(body: bytes, parse_float: Callable[[str], Any] | None = None) -> Any:
    """The JSON of a body. Raises `Misfit`."""
    if not body:
        raise Misfit("the body is empty")
    try:
        return json.loads(body.decode(), parse_float=parse_float, parse_constant=_no_constant)
    except UnicodeDecodeError:
        raise Misfit("the body is no UTF-8") from None
    except RecursionError:
        raise Misfit("the body is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise Misfit(f"the body is no JSON: {error.msg} at character {error.pos}") from None
    except (ValueError, ArithmeticError):  # thousands of digits, or such an exponent
        raise Misfit("the body has a number that is too long") from None


def _no_constant(name: str) -> NoReturn:
    raise Misfit(f"the body is no JSON: it has {name} in it")


def fitting(type: ColumnType) -> Fitted:
    """What makes values of that type."""
    return _MAKERS[type.kind](type)


def _expected(what: str, value: Any) -> Misfit:
    return Misfit(f"expected {what}, found {json_type_of(value)}")


def _boolean(_: ColumnType) -> Fitted:
    def fit(value: Any) -> Any:
        if not isinstance(value, bool):
            raise _expected("a boolean", value)
        return value

    return fit


def _bigint(_: ColumnType) -> Fitted:
    def fit(value: Any) -> Any:
        if isinstance(value, float | Decimal) and -_EXACT < value < _EXACT and value == int(value):
            return int(value)  # JSON Schema: 1.0 is an integer
        if not isinstance(value, int) or isinstance(value, bool):
            raise _expected("an integer", value)
        if not _LEAST <= value <= _MOST:
            raise Misfit("the integer has more than 64 bits")
        return value

    return fit


def _double(_: ColumnType) -> Fitted:
    def fit(value: Any) -> Any:
        if not isinstance(value, int | float | Decimal) or isinstance(value, bool):
            raise _expected("a number", value)
        try:
            found = float(value)
        except OverflowError:
            found = math.inf
        if math.isinf(found):  # what `json` makes of 1e999 too
            raise Misfit("the number is too large")
        return found

    return fit


def _decimal(type: ColumnType) -> Fitted:
    step = Decimal(1).scaleb(-type.scale)

    def fit(value: Any) -> Any:
        if not isinstance(value, int | Decimal) or isinstance(value, bool):
            raise _expected("a number", value)
        with localcontext(prec=type.precision):
            try:
                exact = Decimal(value).quantize(step)
            except InvalidOperation:
                raise Misfit(f"the number has more than {type.precision - type.scale} digits") from None
        if exact != value:
            raise Misfit(f"the number has more than {type.scale} digits behind the point")
        return exact

    return fit


def _string(_: ColumnType) -> Fitted:
    def fit(value: Any) -> Any:
        if not isinstance(value, str):
            raise _expected("text", value)
        return whole_text(value)

    return fit


def whole_text(text: str) -> str:
    """The text, which is no half of a character: `"\\ud800"` is JSON, and nothing that can be stored as text."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise Misfit("the text has half of a character in it") from None
    return text


def _json(_: ColumnType) -> Fitted:
    def fit(value: Any) -> Any:
        try:
            text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=float)
        except RecursionError:
            raise Misfit("it is nested too deeply") from None
        except ValueError:
            raise Misfit("a number is too large") from None
        return whole_text(text)

    return fit


def _binary(_: ColumnType) -> Fitted:
    def fit(value: Any) -> Any:
        if not isinstance(value, str):
            raise _expected("base64", value)
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            raise Misfit("the text is no base64") from None

    return fit


def _date(_: ColumnType) -> Fitted:
    def fit(value: Any) -> Any:
        if not isinstance(value, str):
            raise _expected("a date", value)
        try:
            return date.fromisoformat(value) if _DATE.fullmatch(value) else _no_time("date")
        except ValueError:
            _no_time("date")

    return fit


def _timestamp(_: ColumnType) -> Fitted:
    def fit(value: Any) -> Any:
        if not isinstance(value, str):
            raise _expected("a time", value)
        if not _DATE_TIME.fullmatch(value):
            _no_time("date-time")
        try:
            found = datetime.fromisoformat(value)
            return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
        except (ValueError, OverflowError):
            _no_time("date-time")

    return fit


def is_date(text: str) -> bool:
    """Whether it fits a DATE."""
    return _is_fitting(ColumnType(DATE), text)


def is_date_time(text: str) -> bool:
    """Whether it fits a TIMESTAMP."""
    return _is_fitting(ColumnType(TIMESTAMP), text)


def _is_fitting(type: ColumnType, text: str) -> bool:
    try:
        fitting(type)(text)
    except Misfit:
        return False
    return True


def _no_time(form: str) -> NoReturn:
    raise Misfit(f"the text is no {form} of RFC 3339")


def _array(type: ColumnType) -> Fitted:
    assert type.of is not None
    fit_one = fitting(type.of)

    def fit(value: Any) -> Any:
        if not isinstance(value, list):
            raise _expected("an array", value)
        values = cast("list[Any]", value)
        at, found = 0, list[Any]()
        try:
            for at, each in enumerate(values):  # noqa: B007 (where it stopped)
                found.append(None if each is None else fit_one(each))
        except Misfit as misfit:
            raise misfit.within(f"[{at}]") from None
        return found

    return fit


def _map(type: ColumnType) -> Fitted:
    assert type.of is not None
    fit_one = fitting(type.of)

    def fit(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _expected("an object", value)
        found: list[tuple[str, Any]] = []
        for key, each in cast("dict[str, Any]", value).items():
            try:
                found.append((whole_text(key), None if each is None else fit_one(each)))
            except Misfit as misfit:
                raise misfit.within(f".{key[:60]}") from None
        return found

    return fit


def _struct(type: ColumnType) -> Fitted:
    fields = [(each.name, fitting(each.type), each.required) for each in type.fields]

    def fit(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _expected("an object", value)
        values = cast("dict[str, Any]", value)
        found: dict[str, Any] = {}
        for name, fit_one, required in fields:
            each = values.get(name)
            if each is None:
                if required:
                    raise Misfit(
                        "it is required, and missing" if name not in values else "it may not be null", f".{name}"
                    )
                found[name] = None
                continue
            try:
                found[name] = fit_one(each)
            except Misfit as misfit:
                raise misfit.within(f".{name}") from None
        return found

    return fit


_MAKERS: dict[str, Callable[[ColumnType], Fitted]] = {
    BOOLEAN: _boolean,
    BIGINT: _bigint,
    DOUBLE: _double,
    DECIMAL: _decimal,
    STRING: _string,
    JSON: _json,
    BINARY: _binary,
    DATE: _date,
    TIMESTAMP: _timestamp,
    ARRAY: _array,
    MAP: _map,
    STRUCT: _struct,
}
