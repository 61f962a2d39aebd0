"""A line of the log, as text or as JSON. What others have said in it can neither begin a line nor steer a terminal."""

from __future__ import annotations

import json
import logging
import traceback
from datetime import UTC, datetime

from lakemq.model.safe_text import one_line

MESSAGE_CHARACTERS_MAX = 8_192
FIELD_CHARACTERS_MAX = 200
STACK_CHARACTERS_MAX = 16_384
"""Of an exception's trace; of a longer one its end, where it says what went wrong."""
FIELDS = ("request_id", "user", "client", "trace_id")
"""What a line may say beside its message: given as `extra`."""
_FRAMES_MAX = 50


class LineFormatter(logging.Formatter):
    """`TIME LEVEL LOGGER: MESSAGE (request_id=…)`, and a trace in lines that are indented."""

    def format(self, record: logging.LogRecord) -> str:
        """As `logging.Formatter`."""
        about = " ".join(f"{name}={value}" for name, value in _fields_of(record).items())
        line = f"{_time_of(record)} {record.levelname} {record.name}: {message_of(record)}{about and f' ({about})'}"
        trace = "".join(f"\n  {one_line(each, FIELD_CHARACTERS_MAX * 4)}" for each in _stack_of(record).splitlines())
        return line + trace


class JsonFormatter(logging.Formatter):
    """One object of JSON, in ASCII."""

    def format(self, record: logging.LogRecord) -> str:
        """As `logging.Formatter`."""
        content: dict[str, object] = {
            "timestamp": _time_of(record),
            "level": record.levelname,
            "logger": record.name,
            "message": message_of(record),
            **_fields_of(record),
        }
        if record.threadName not in (None, "MainThread"):
            content["thread"] = one_line(str(record.threadName), FIELD_CHARACTERS_MAX)
        stack = _stack_of(record)
        if stack:
            said: dict[str, str] = {"stack": "\n".join(one_line(each, len(each)) for each in stack.splitlines())}
            if record.exc_info and record.exc_info[0] is not None:
                kind, error = record.exc_info[0], record.exc_info[1]
                name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
                said = {"type": name, "message": one_line(_text_of(error), FIELD_CHARACTERS_MAX * 5), **said}
            content["exception"] = said
        return json.dumps(content)


def message_of(record: logging.LogRecord) -> str:
    """What it says, in one line."""
    try:
        text = record.getMessage()
    except Exception as error:  # noqa: BLE001  a line that can't be made is said as far as it can
        text = f"{record.msg} (its arguments don't fit: {type(error).__name__})"
    return one_line(text, MESSAGE_CHARACTERS_MAX)


def _fields_of(record: logging.LogRecord) -> dict[str, str]:
    found = {name: getattr(record, name, None) for name in FIELDS}
    return {name: one_line(str(value), FIELD_CHARACTERS_MAX) for name, value in found.items() if value}


def _time_of(record: logging.LogRecord) -> str:
    """RFC 3339, in UTC, to the millisecond."""
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _stack_of(record: logging.LogRecord) -> str:
    parts = [record.stack_info] if record.stack_info else []
    if record.exc_info and record.exc_info[0] is not None:
        shown = traceback.TracebackException(*record.exc_info, limit=-_FRAMES_MAX, compact=True)
        parts.insert(0, "".join(shown.format()))
    stack = "\n".join(parts).strip("\n")
    over = len(stack) - STACK_CHARACTERS_MAX
    return stack if over <= 0 else f"… ({over} more characters)\n{stack[over:]}"


def _text_of(error: BaseException | None) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  what an error says of itself may be wrong too
        return "(it can't say)"
