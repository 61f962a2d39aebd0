"""A process's log is as its settings say, from here on."""

from __future__ import annotations

import logging
import sys
import threading
from types import TracebackType

from lakemq.logs.formats import JsonFormatter, LineFormatter
from lakemq.logs.handler import Handler
from lakemq.logs.levels import LEVELS, ROOT

_OTHERS = logging.WARNING
"""Of loggers that aren't ours at least: what is below may have secrets, and bodies of messages, in it."""

logger = logging.getLogger(__name__)


def set_up(form: str, level: str) -> None:
    """Write lines of that form ("line" or "json") to stderr, ours from that level on. What has been set up before is
    replaced; other handlers of the process stay."""
    root = logging.getLogger()
    handler = next((each for each in root.handlers if isinstance(each, Handler)), None)
    if handler is None:
        handler = Handler()
        root.addHandler(handler)
    handler.setFormatter(JsonFormatter() if form == "json" else LineFormatter())
    root.setLevel(max(_OTHERS, logging.getLevelNamesMapping()[level]))
    LEVELS.begin(level)
    if form == "json":
        logging.captureWarnings(True)
        sys.excepthook, threading.excepthook = _ended_by, _thread_ended_by


def say(line: str, level: int = logging.INFO) -> None:
    """One line for people, and for the process that started this one, whatever the level: as it is, or, where the log
    is JSON, as that."""
    handler = _json_handler()
    if handler is not None:
        handler.handle(logging.LogRecord(ROOT, level, "", 0, line, None, None))
        return
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _json_handler() -> Handler | None:
    found = (each for each in logging.root.handlers if isinstance(each, Handler))
    return next((each for each in found if isinstance(each.formatter, JsonFormatter)), None)


def _ended_by(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    logger.critical("the process ends because of an unexpected error", exc_info=(kind, error, trace))


def _thread_ended_by(arguments: threading.ExceptHookArgs) -> None:
    if arguments.exc_value is not None and not issubclass(arguments.exc_type, SystemExit):
        name = arguments.thread.name if arguments.thread is not None else "?"
        found = (arguments.exc_type, arguments.exc_value, arguments.exc_traceback)
        logger.error("the thread %s ended because of an unexpected error", name, exc_info=found)
