"""Lines of the log: what stands in them, and what hostile text can't do in them."""

from __future__ import annotations

import json
import logging
import re
from typing import Any

import pytest

from lakemq.logs.formats import MESSAGE_CHARACTERS_MAX, STACK_CHARACTERS_MAX, JsonFormatter, LineFormatter

HOSTILE = "x\n2026-01-01T00:00:00.000Z CRITICAL lakemq: forged\r\x1b[2J\u202e\udc80"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def record(
    message: object = "said", *arguments: object, error: BaseException | None = None, **extra: object
) -> logging.LogRecord:
    exception: Any = None if error is None else (type(error), error, error.__traceback__)
    made = logging.LogRecord("lakemq.part", logging.WARNING, "x.py", 1, message, arguments, exception)
    vars(made).update(extra)
    return made


def raised(error: Exception) -> Exception:
    try:
        raise error
    except type(error):
        return error


def as_json(made: logging.LogRecord) -> dict[str, Any]:
    line = JsonFormatter().format(made)
    assert "\n" not in line
    assert line.isascii()
    assert line.isprintable()
    return json.loads(line)


def test_a_line_of_json_has_what_programs_look_for() -> None:
    content = as_json(
        record("%s of %d", "two", 3, request_id="r-1", user="mira", client="10.0.0.1", trace_id="ab" * 16)
    )
    assert TIME.fullmatch(content.pop("timestamp"))
    assert content == {
        "level": "WARNING",
        "logger": "lakemq.part",
        "message": "two of 3",
        "request_id": "r-1",
        "user": "mira",
        "client": "10.0.0.1",
        "trace_id": "ab" * 16,
    }
    assert set(as_json(record(user="", trace_id=None))) == {"timestamp", "level", "logger", "message"}


def test_a_line_of_text_says_the_same() -> None:
    line = LineFormatter().format(record("%s", "two", request_id="r-1", user="mira"))
    time, rest = line.split(" ", 1)
    assert TIME.fullmatch(time)
    assert rest == "WARNING lakemq.part: two (request_id=r-1 user=mira)"


def test_an_exception_is_one_field_with_its_type_and_its_stack() -> None:
    content = as_json(record(error=raised(ValueError(HOSTILE))))
    said = content["exception"]
    assert said["type"] == "ValueError"
    assert said["message"].startswith("x\\n2026")
    assert "in raised" in said["stack"]
    assert all(line.isprintable() for line in said["stack"].splitlines())
    assert content["message"] == "said"


@pytest.mark.parametrize("where", ["message", "user", "exception"])
def test_hostile_text_begins_no_line_and_steers_no_terminal(where: str) -> None:
    made = {
        "message": lambda: record("%s", HOSTILE),
        "user": lambda: record(user=HOSTILE),
        "exception": lambda: record(error=raised(ValueError(HOSTILE))),
    }[where]()
    first, *others = LineFormatter().format(made).split("\n")
    assert first.isprintable()
    assert all(line.isprintable() and line.startswith("  ") for line in others)
    assert bool(others) == (where == "exception")
    assert as_json(made)["level"] == "WARNING"


def test_what_is_long_is_bounded() -> None:
    long = record("%s", "m" * 10_000_000, error=raised(ValueError("e" * 10_000_000)))
    for formatter in (LineFormatter(), JsonFormatter()):
        assert len(formatter.format(long)) < MESSAGE_CHARACTERS_MAX + 2 * STACK_CHARACTERS_MAX
    assert as_json(long)["message"].endswith(f"… ({10_000_000 - MESSAGE_CHARACTERS_MAX} more characters)")


def test_an_endless_recursion_is_told_in_few_frames() -> None:
    def again(depth: int) -> int:
        return again(depth + 1) + 1

    with pytest.raises(RecursionError) as raised_here:
        again(0)
    made = record(error=raised_here.value)
    assert "RecursionError" in as_json(made)["exception"]["stack"]
    assert len(LineFormatter().format(made)) < 3 * STACK_CHARACTERS_MAX


class Wrong(Exception):
    def __str__(self) -> str:
        raise ValueError("no")


def test_what_cannot_be_said_is_said_as_far_as_it_can() -> None:
    assert as_json(record("%d", "two"))["message"] == "%d (its arguments don't fit: TypeError)"
    assert as_json(record(error=raised(Wrong())))["exception"]["type"] == "tests.logs.test_formats.Wrong"


def test_another_thread_is_named() -> None:
    assert as_json(record(threadName="lake"))["thread"] == "lake"
