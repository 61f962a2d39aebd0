"""Where lines go: stderr, whichever that is now. A flood of lines doesn't: so many that are alike are written, and the
others are counted and reported after that time, or when the process ends."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Hashable
from contextlib import nullcontext, suppress
from typing import NamedTuple, TextIO

from lakemq.logs.formats import message_of
from lakemq.model.repeats import Repeats, Seen
from lakemq.model.safe_text import one_line

ALIKE_MAX, ALIKE_S, ALIKE_KINDS_MAX = 5, 60.0, 1_000
"""So many lines that say the same, in so long; of so many kinds what came is known."""
PLACE_MAX, PLACE_S, PLACES_MAX = 500, 10.0, 1_000
"""So many lines that the same place in the code says, whatever is in them, in so long. What is only for finding faults,
and was asked for, isn't counted."""
_SAYING_CHARACTERS_MAX, _ALIKE_CHARACTERS_MAX = 200, 1_000
_NO_LOCK = nullcontext()


class _Kind(NamedTuple):
    """Of lines: `said` is what they say, or begin with."""

    logger: str
    level: int
    said: str
    place: Hashable = None


class Handler(logging.Handler):
    """Writes lines to the process's stderr."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic, stream: TextIO | None = None) -> None:
        """`stream` None: what `sys.stderr` is as a line is written."""
        super().__init__()
        self._now_s, self._stream = now_s, stream
        self._alike = Repeats(ALIKE_MAX, ALIKE_S, ALIKE_KINDS_MAX)
        self._places = Repeats(PLACE_MAX, PLACE_S, PLACES_MAX)

    def emit(self, record: logging.LogRecord) -> None:
        """As `logging.Handler`."""
        try:
            now_s = self._now_s()
            self._say_over(now_s)
            note = self._sieve(record, now_s)
            if note is not None:
                self._write(self.format(_noted(record, note) if note else record))
        except RecursionError:
            raise
        except Exception:  # noqa: BLE001  what can't be written says so as logging has it
            self.handleError(record)

    def flush(self) -> None:
        """Write what has been written."""
        with self.lock or _NO_LOCK:
            stream = self._stream or sys.stderr
            if stream is not None and not stream.closed:  # pyright: ignore[reportUnnecessaryComparison]
                stream.flush()

    def close(self) -> None:
        """Say what was counted and not said yet."""
        with self.lock or _NO_LOCK, suppress(OSError, ValueError):  # nobody reads any more
            self._say_over(float("inf"))
        super().close()

    def _sieve(self, record: logging.LogRecord, now_s: float) -> str | None:
        """What is to be added to the line; None: it is only counted."""
        said = message_of(record)[:_ALIKE_CHARACTERS_MAX]
        seen = self._alike.note(_Kind(record.name, record.levelno, said, record.lineno), now_s)
        if seen is Seen.COUNTED:
            return None
        if seen is Seen.LAST:
            return f" ({ALIKE_MAX} of this within {ALIKE_S:.0f} s: more are counted)"
        if record.levelno <= logging.DEBUG:
            return ""
        template = one_line(str(record.msg), _SAYING_CHARACTERS_MAX)
        seen = self._places.note(_Kind(record.name, record.levelno, template, record.lineno), now_s)
        if seen is Seen.COUNTED:
            return None
        return f" ({PLACE_MAX} such lines within {PLACE_S:.0f} s: more are counted)" if seen is Seen.LAST else ""

    def _say_over(self, now_s: float) -> None:
        for repeats in (self._alike, self._places):
            for kind, times in repeats.over(now_s):
                assert isinstance(kind, _Kind)
                text = f"{times} more of this within {repeats.window_s:.0f} s: {kind.said[:_SAYING_CHARACTERS_MAX]}"
                self._write(self.format(logging.LogRecord(kind.logger, kind.level, "", 0, text, None, None)))

    def _write(self, line: str) -> None:
        stream = self._stream or sys.stderr
        if stream is None or stream.closed:  # pyright: ignore[reportUnnecessaryComparison]
            return
        stream.write(line + "\n")
        stream.flush()


def _noted(record: logging.LogRecord, note: str) -> logging.LogRecord:
    """The same with a note at its end; other handlers see it as it was."""
    copied = logging.makeLogRecord(record.__dict__)
    copied.msg, copied.args = message_of(record) + note, None
    return copied
