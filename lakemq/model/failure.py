"""Why a message failed: what whoever could not process it says, kept as properties of its retry and its dead letter.

The text is a stranger's, and is shown on terminals: it is bounded, and what would not be seen, or would change how the
rest is seen, stands there as an escape.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

FAILURE_CLASS = "lakemq_failure_class"
FAILURE_TEXT = "lakemq_failure_text"
"""The properties' names."""

CLASS_MAX = 200
TEXT_MAX = 2_000
"""So many characters are kept; what is longer is cut, and ends with `CUT`."""
GIVEN_MAX = 100_000
"""So many characters may be given."""
CUT = "…"

CAUSE_MAX = 200
"""Of a failure's cause as many characters are told apart."""

TIME_OUT = "lakemq.TimeOut"
"""The class where nobody said anything: the message was handed out, and its time was over."""

_UNSEEN = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff"
_IN_TEXT = re.compile(f"[{_UNSEEN}]")
_IN_CLASS = re.compile(f"[\t\n{_UNSEEN}]")


class Failure(NamedTuple):
    """Why a message failed; `name` is the class of the error, such as `ValueError`. Made by `failure`."""

    name: str | None
    text: str | None

    def properties(self) -> dict[str, str]:
        """As it is kept with a message."""
        return {
            key: value for key, value in ((FAILURE_CLASS, self.name), (FAILURE_TEXT, self.text)) if value is not None
        }


def failure(name: str | None, text: str | None = None) -> Failure | None:
    """What is kept of a reason; None where nothing is said."""
    kept = Failure(_bounded(name, CLASS_MAX, _IN_CLASS), _bounded(text, TEXT_MAX, _IN_TEXT))
    return None if kept == (None, None) else kept


def ran_out(times: int) -> Failure:
    """Of a message whose time was over for the `times`th time."""
    return Failure(TIME_OUT, f"handed out {times} times, and never acknowledged in time")


def failure_of(properties: Mapping[str, str] | None) -> Failure | None:
    """What a message's properties say; None for nothing."""
    if not properties:
        return None
    name, text = properties.get(FAILURE_CLASS), properties.get(FAILURE_TEXT)
    return None if name is None and text is None else Failure(name, text)


def cause_of(name: str | None, text: str | None) -> str:
    """What failures of one kind have in common, on one line: their class; the beginning of the text of those without
    one. Empty: nobody said why."""
    return " ".join((name or text or "").split())[:CAUSE_MAX].rstrip()


def with_failure(properties: dict[str, str] | None, why: Failure | None) -> dict[str, str] | None:
    """The properties of a retry or dead letter of a message that has these: why it failed now stands in the place of
    what it failed by before. None for none."""
    if why is None and failure_of(properties) is None:
        return properties
    kept = {key: value for key, value in (properties or {}).items() if key not in (FAILURE_CLASS, FAILURE_TEXT)}
    if why is not None:
        kept |= why.properties()
    return kept or None


def _bounded(text: str | None, most: int, unseen: re.Pattern[str]) -> str | None:
    if not text:
        return None
    shown = text[: most + 1]
    if not shown.isprintable():  # most are, and that is seen much faster
        shown = unseen.sub(_escaped, shown)
    return shown if len(shown) <= most else shown[: most - len(CUT)] + CUT


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
