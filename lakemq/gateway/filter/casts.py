"""Values of one type as another. What can't be is null; Spark would stop with an error there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from lakemq.gateway.filter.values import (
    BYTES,
    DAY,
    NAMES,
    NOTHING,
    REAL,
    TEXT,
    TIME,
    TRUTH,
    WHOLE,
    Node,
    combine,
    constant,
    pc,
    refuse,
    text_of,
)

_TRUE = pa.array(["t", "true", "y", "yes", "1"])
_FALSE = pa.array(["f", "false", "n", "no", "0"])
_WHOLE_TEXT = r"\A\s*(?P<sign>[+-]?)0*(?P<digits>[0-9]{1,19})\s*\z"
_REAL_TEXT = r"(?i)\A\s*[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]{1,9})?|inf(?:inity)?)\s*\z"
_TIME_TEXT = (
    r"\A\s*(?P<year>[0-9]{4})(?:-(?P<month>0?[1-9]|1[0-2])(?:-(?P<day>0?[1-9]|[12][0-9]|3[01])"
    r"(?:[ T](?:(?P<hour>[01]?[0-9]|2[0-3]):(?P<minute>[0-5]?[0-9])"
    r"(?::(?P<second>[0-5]?[0-9])(?:\.(?P<fraction>[0-9]{0,9}))?)?"
    r" ?(?:Z|UTC|GMT|(?P<zone_sign>[+-])(?P<zone_hour>[01]?[0-9]):(?P<zone_minute>[0-5]?[0-9]))?)?)?)?)?\s*\z"
)
_MICROSECONDS_PER_MINUTE = 60_000_000
_MICROSECONDS_PER_SECOND = 1_000_000
_NULL_TEXT = pa.scalar(None, TEXT)


def coerce(node: Node, data_type: pa.DataType) -> Node:
    """The node as `data_type`; raises `InvalidFilter` when such values never can be, or when it is
    a constant that can't."""
    if node.data_type == data_type:
        return node
    if node.data_type == NOTHING:
        return constant(pa.scalar(None, data_type), node.at)
    if node.data_type == BYTES:
        return coerce(text_of(node), data_type)
    function = _CASTS.get((node.data_type, data_type))
    if function is None:
        refuse(f"{NAMES[node.data_type]} can't be made {NAMES[data_type]}", node.at)
    made = combine(data_type, node.at, function, node)
    if made.constant is not None and not made.constant.is_valid and node.constant.is_valid:  # pyright: ignore[reportOptionalMemberAccess]
        refuse(f"{str(node.constant.as_py())[:40]!r} is not {NAMES[data_type]}", node.at)  # pyright: ignore[reportOptionalMemberAccess]
    return made


def only(mask: Any, values: Any) -> Any:
    """The values where the mask is true, null elsewhere."""
    return pc.if_else(mask, values, pa.scalar(None, values.type))


def whole_within(values: Any, bits: int) -> Any:
    """Whole numbers; null where they don't fit in so many bits."""
    bound = 1 << (bits - 1)
    fits = pc.and_(pc.greater_equal(values, -bound), pc.less(values, bound))
    return only(fits, values)


# From text -----------------------------------------------------------------------------------


def _text_to_whole(texts: Any) -> Any:
    parts = pc.extract_regex(texts, _WHOLE_TEXT)
    matched = parts.is_valid()
    # 19 digits are always a uint64, but not always an int64.
    digits = pc.if_else(matched, pc.struct_field(parts, "digits"), "0").cast(pa.uint64())
    negative = pc.equal(pc.struct_field(parts, "sign"), "-")
    largest = pc.if_else(negative, pa.scalar(1 << 63, pa.uint64()), pa.scalar((1 << 63) - 1, pa.uint64()))
    values = digits.cast(WHOLE, safe=False)
    signed = pc.if_else(negative, pc.negate(values), values)
    return only(pc.and_(matched, pc.less_equal(digits, largest)), signed)


def _text_to_real(texts: Any) -> Any:
    return only(pc.match_substring_regex(texts, _REAL_TEXT), pc.utf8_trim_whitespace(texts)).cast(REAL)


def _text_to_truth(texts: Any) -> Any:
    words = pc.utf8_lower(pc.utf8_trim_whitespace(texts))
    false = only(pc.is_in(words, value_set=_FALSE), pa.scalar(False))
    return pc.if_else(pc.is_in(words, value_set=_TRUE), True, false)


def _text_to_time(texts: Any) -> Any:
    """Spark's forms: a year to a whole time with zone; without one it is UTC."""
    parts = pc.extract_regex(texts, _TIME_TEXT)

    def part(name: str, default: str) -> Any:
        found = pc.struct_field(parts, name)
        return pc.utf8_lpad(pc.if_else(pc.equal(found, ""), default, found), 2, "0")

    year = pc.struct_field(parts, "year")
    month, day = part("month", "01"), part("day", "01")
    valid = pc.and_(parts.is_valid(), _is_day(year, month, day))
    date = pc.binary_join_element_wise(year, month, day, "-")
    clock = pc.binary_join_element_wise(part("hour", "00"), part("minute", "00"), part("second", "00"), ":")
    fraction = pc.utf8_slice_codeunits(pc.utf8_rpad(pc.struct_field(parts, "fraction"), 6, "0"), 0, 6)
    whole = pc.binary_join_element_wise(pc.binary_join_element_wise(date, clock, " "), fraction, ".")
    micros = only(valid, whole).cast(pa.timestamp("us")).cast(WHOLE)
    minutes = pc.add(
        pc.multiply(only(valid, part("zone_hour", "0")).cast(WHOLE), 60),
        only(valid, part("zone_minute", "0")).cast(WHOLE),
    )
    shift = pc.multiply(minutes, _MICROSECONDS_PER_MINUTE)
    ahead = pc.equal(pc.struct_field(parts, "zone_sign"), "+")
    return pc.if_else(ahead, pc.subtract(micros, shift), pc.add(micros, shift)).cast(TIME)


def _is_day(year: Any, month: Any, day: Any) -> Any:
    """Whether the month, of two digits, has that day, of two digits: year is of four, or null."""
    number = pc.if_else(pc.equal(year, ""), "0", year).cast(WHOLE)

    def divides(divisor: int) -> Any:
        return pc.equal(pc.multiply(pc.divide(number, divisor), divisor), number)

    leap = pc.and_(divides(4), pc.or_(pc.invert(divides(100)), divides(400)))
    february = pc.if_else(leap, "29", "28")
    short = pc.is_in(month, value_set=pa.array(["04", "06", "09", "11"]))
    last = pc.if_else(pc.equal(month, "02"), february, pc.if_else(short, "30", "31"))
    return pc.less_equal(day, last)


# From other types ----------------------------------------------------------------------------


def _whole_to_real(values: Any) -> Any:
    return values.cast(REAL, safe=False)


def _real_to_whole(values: Any) -> Any:
    fits = pc.and_(pc.greater_equal(values, -(2.0**63)), pc.less(values, 2.0**63))
    return only(fits, pc.trunc(values)).cast(WHOLE, safe=False)


def _time_to_text(values: Any) -> Any:
    return pc.replace_substring_regex(values.cast(TEXT), pattern=r"\.?0*Z$", replacement="")


def _time_to_whole(values: Any) -> Any:
    return _real_to_whole(pc.floor(_time_to_real(values)))


def _time_to_real(values: Any) -> Any:
    return pc.divide(values.cast(WHOLE).cast(REAL, safe=False), float(_MICROSECONDS_PER_SECOND))


def _whole_to_time(values: Any) -> Any:
    bound = (1 << 63) // _MICROSECONDS_PER_SECOND
    fits = pc.and_(pc.greater(values, -bound), pc.less(values, bound))
    return pc.multiply(only(fits, values), _MICROSECONDS_PER_SECOND).cast(TIME)


def _real_to_time(values: Any) -> Any:
    return _real_to_whole(pc.multiply(values, float(_MICROSECONDS_PER_SECOND))).cast(TIME)


_CASTS: dict[tuple[pa.DataType, pa.DataType], Callable[[Any], Any]] = {
    (TEXT, WHOLE): _text_to_whole,
    (TEXT, REAL): _text_to_real,
    (TEXT, TRUTH): _text_to_truth,
    (TEXT, TIME): _text_to_time,
    (TEXT, DAY): lambda texts: _text_to_time(texts).cast(DAY),
    (WHOLE, TEXT): lambda values: values.cast(TEXT),
    (WHOLE, REAL): _whole_to_real,
    (WHOLE, TRUTH): lambda values: pc.not_equal(values, 0),
    (WHOLE, TIME): _whole_to_time,
    (REAL, WHOLE): _real_to_whole,
    (REAL, TRUTH): lambda values: pc.not_equal(values, 0.0),
    (REAL, TIME): _real_to_time,
    (TRUTH, TEXT): lambda values: values.cast(TEXT),
    (TRUTH, WHOLE): lambda values: values.cast(WHOLE),
    (TRUTH, REAL): lambda values: values.cast(WHOLE).cast(REAL),
    (TIME, TEXT): _time_to_text,
    (TIME, WHOLE): _time_to_whole,
    (TIME, REAL): _time_to_real,
    (TIME, DAY): lambda values: values.cast(DAY),
    (DAY, TEXT): lambda values: values.cast(TEXT),
    (DAY, TIME): lambda values: values.cast(pa.timestamp("us")).cast(TIME),
}
