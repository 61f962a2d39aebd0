"""Why a message failed, as a client tells the broker."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, TypeVar

from lakemq.model.errors import InvalidRequest
from lakemq.model.failure import TIME_OUT, Failure, failure

PACKAGE = "lakemq.client"
Reasons = Literal["full", "class", "none"]
"""How much is told of a listener's error: its class and its text, its class alone, or nothing."""

Answer = TypeVar("Answer")


def reason_of(
    said: str | BaseException | None, cause: BaseException | None = None, reasons: Reasons = "full"
) -> Failure | None:
    """What is told of an error, or of a text (then the class is that of its `cause`); None: nothing."""
    error = said if isinstance(said, BaseException) else cause
    if reasons == "none":
        return None
    name = None if error is None else _class_of(error)
    if reasons == "class":
        return failure(name)
    if isinstance(said, str):
        return failure(name, said)
    return None if error is None else failure(name, _text_of(error))


def timed_out(seconds: float, reasons: Reasons) -> Failure | None:
    """What is told of a message that its listener has had for longer than that."""
    if reasons == "none":
        return None
    return failure(TIME_OUT, f"the listener has had it for more than {seconds:g} s" if reasons == "full" else None)


def to_entry(entry: dict[str, Any], why: Failure | None) -> dict[str, Any]:
    """An entry of a nack, with its reason where there is one."""
    if why is None:
        return entry
    said = {"class": why.name, "text": why.text}
    return {**entry, "reason": {key: value for key, value in said.items() if value is not None}}


async def send_nacks(
    send: Callable[[list[dict[str, Any]]], Awaitable[Answer]], entries: Sequence[dict[str, Any]]
) -> Answer:
    """Send a nack's entries, and once more without their reasons to a broker of a version that refuses these: a
    message goes back, whatever is known of why."""
    try:
        return await send(list(entries))
    except InvalidRequest:
        if not any("reason" in entry for entry in entries):
            raise
    return await send([{key: value for key, value in entry.items() if key != "reason"} for entry in entries])


def _class_of(error: BaseException) -> str:
    """The name of its class as programs import it: one of the client's is not where its module is."""
    kind = type(error)
    name, module = kind.__qualname__, kind.__module__
    if module in ("builtins", "__main__"):
        return name
    # The package is loaded, as this module is of it; to import it here would be a circle.
    if module.startswith("lakemq.") and getattr(sys.modules[PACKAGE], name, None) is kind:
        module = PACKAGE
    return f"{module}.{name}"


def _text_of(error: BaseException) -> str | None:
    try:
        return str(error)
    except BaseException:  # noqa: BLE001  SystemExit too: it is a user's class, which keeps no message from going back
        return None
