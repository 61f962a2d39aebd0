"""A JSON Schema that bodies fit, made of some of them: a proposal, which somebody looks at and sets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from itertools import islice
from typing import Any, NamedTuple, cast

from lakemq.model.errors import InvalidRequest
from lakemq.model.fit import Misfit, is_date, is_date_time, parse_body
from lakemq.model.json_schema import DEPTH_MAX, NAME_CHARACTERS_MAX, json_type_of
from lakemq.model.schema_kinds import BODIES_MAX
from lakemq.model.topic_columns import IN_VIEW

PROPERTIES_MAX = 200
"""An object that has more names, in all bodies together, is a map."""
DECIMALS_MIN, DECIMALS_MAX = 2, 4
"""Numbers of which none has more behind the point are DECIMALs, with that many or more."""
_DIGITS_MAX = 30


class Inferred(NamedTuple):
    """`schema`: as JSON. `bodies`: how many were read; `others`: how many of these aren't JSON objects. `left_out`:
    names that can't be columns."""

    schema: dict[str, Any]
    bodies: int
    others: int
    left_out: tuple[str, ...]
    decimals: tuple[str, ...] = ()
    """Fields that became DECIMALs because their numbers have few decimals. A later number with more decimals won't
    match."""


def infer_schema(bodies: Iterable[bytes]) -> Inferred:
    """Of the first `BODIES_MAX` of the bodies. Raises `InvalidRequest` where none is an object."""
    top = _Seen()
    count = others = 0
    for body in bodies:
        if count >= BODIES_MAX:
            break
        count += 1
        try:
            value = parse_body(body[5:] if body[:1] == b"\x00" else body, Decimal)
        except Misfit:
            value = None
        if isinstance(value, dict):
            top.add(value, 0)
        else:
            others += 1
    if count == others:
        raise InvalidRequest(f"of {count} bodies none is an object of JSON: there is nothing to infer a schema of")
    left_out: list[str] = []
    schema = top.schema(left_out, IN_VIEW)
    if not top.fields or "properties" not in schema:
        raise InvalidRequest("the objects have no names, or too many, that could be columns")
    decimals = tuple(islice(_decimals_in(schema, ""), PROPERTIES_MAX))
    return Inferred(schema, count, others, tuple(left_out[:PROPERTIES_MAX]), decimals)


def _decimals_in(schema: dict[str, Any], path: str) -> Iterator[str]:
    if "multipleOf" in schema:
        yield path.removeprefix(".")
    for name, each in schema.get("properties", {}).items():
        yield from _decimals_in(each, f"{path}.{name}")
    if "items" in schema:
        yield from _decimals_in(schema["items"], f"{path}[]")


class _Seen:
    """What was seen at one place."""

    def __init__(self) -> None:
        self.times = 0
        self.kinds: dict[str, int] = {}
        self.fields: dict[str, _Seen] = {}
        self.too_many = False
        self.items: _Seen | None = None
        self.forms = {"date-time": True, "date": True}
        self.decimals = 0
        """The most behind the point of any number; more than `DECIMALS_MAX`: it is no such number."""
        self.is_whole = True

    def add(self, value: Any, depth: int) -> None:
        self.times += 1
        kind = _kind_of(value, depth)
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        if kind == "string":
            self.forms["date-time"] = self.forms["date-time"] and is_date_time(value)
            self.forms["date"] = self.forms["date"] and is_date(value)
        elif kind in ("number", "integer"):
            self._add_number(value)
        elif kind == "array":
            self.items = self.items or _Seen()
            for each in value:
                self.items.add(each, depth + 1)
        elif kind == "object":
            self._add_fields(cast("dict[str, Any]", value), depth)

    def _add_number(self, value: int | Decimal) -> None:
        """By its text: of `12.50` a binary number knows no decimals, and of `0.1 + 0.2` it has seventeen."""
        if isinstance(value, int):
            if abs(value) >= 10**_DIGITS_MAX:
                self.decimals = DECIMALS_MAX + 1
            return
        _, digits, exponent = value.as_tuple()
        is_few = isinstance(exponent, int) and -DECIMALS_MAX <= exponent < 0 and len(digits) <= _DIGITS_MAX
        self.decimals = max(self.decimals, -int(exponent) if is_few else DECIMALS_MAX + 1)
        self.is_whole = self.is_whole and is_few and value == value.to_integral_value()

    def _number(self) -> dict[str, Any]:
        """Of money a DECIMAL. What ends in `.0` throughout says nothing of its decimals: programs write it so."""
        if not 0 < self.decimals <= DECIMALS_MAX or (self.is_whole and self.decimals == 1):
            return {"type": "number"}
        return {"type": "number", "multipleOf": 10.0 ** -max(self.decimals, DECIMALS_MIN)}

    def _add_fields(self, value: dict[str, Any], depth: int) -> None:
        for name, each in value.items():
            found = self.fields.get(name)
            if found is None:
                if len(self.fields) >= PROPERTIES_MAX:
                    self.too_many = True
                    continue
                found = self.fields[name] = _Seen()
            found.add(each, depth + 1)

    def schema(self, left_out: list[str], taken: tuple[str, ...] = ()) -> dict[str, Any]:
        kinds = {each for each in self.kinds if each != "null"}
        if kinds == {"integer", "number"}:
            kinds = {"number"}
        if len(kinds) != 1:
            return {}
        kind = kinds.pop()
        said = self._typed(kind, left_out, taken)
        return {**said, "type": [kind, "null"]} if said and "null" in self.kinds else said

    def _typed(self, kind: str, left_out: list[str], taken: tuple[str, ...]) -> dict[str, Any]:
        if kind == "any":
            return {}
        if kind == "string":
            form = next((each for each, all_are in self.forms.items() if all_are), None)
            return {"type": kind} if form is None else {"type": kind, "format": form}
        if kind == "array":
            assert self.items is not None
            return {"type": kind, "items": self.items.schema(left_out)}
        if kind == "number":
            return self._number()
        if kind != "object" or self.too_many:
            return {"type": kind}
        names = set(taken)
        properties: dict[str, Any] = {}
        for name, each in self.fields.items():
            if not 0 < len(name) <= NAME_CHARACTERS_MAX or not name.isprintable() or name.lower() in names:
                left_out.append(name[:NAME_CHARACTERS_MAX])
                continue
            names.add(name.lower())
            properties[name] = each.schema(left_out)
        if not properties:
            return {"type": kind}
        always = [name for name in properties if self._is_always(name)]
        said: dict[str, Any] = {"type": kind, "properties": properties}
        return {**said, "required": always} if always else said

    def _is_always(self, name: str) -> bool:
        """Whether each object had it, and never as null."""
        found = self.fields[name]
        return found.times == self.kinds["object"] and "null" not in found.kinds


def _kind_of(value: Any, depth: int) -> str:
    if depth >= DEPTH_MAX and isinstance(value, dict | list):
        return "any"
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return "number"
    return json_type_of(value)
