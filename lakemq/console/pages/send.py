"""Sending a message, and sending one again."""

from __future__ import annotations

import json
from base64 import b64decode
from binascii import Error as NoBase64
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from lakemq.console.curl import own_properties
from lakemq.console.visit import Visit
from lakemq.contract import routes
from lakemq.model.errors import InvalidRequest, LakemqError, MessageTooLarge

FORM_BODY_MAX = 1024 * 1024
"""Characters of a body that a form shows, to be sent again."""
_FIELDS = ("tag", "keys", "ordering_key", "delay_s")


async def show(visit: Visit) -> Response:
    """The form; filled with a message, where that is to be sent again."""
    await visit.who()
    values = dict.fromkeys((*_FIELDS, "body", "properties"), "") | {
        "topic": visit.field("topic"),
        "body_encoding": "utf-8",
    }
    if again := visit.field("again"):
        values |= _again(await visit.broker.get(routes.MESSAGE.at(again)))
    return visit.page("send.html", values=values, problem="", again=bool(again))


def _again(message: Mapping[str, Any]) -> dict[str, str]:
    body = str(message.get("body", ""))
    if len(body) > FORM_BODY_MAX:
        raise MessageTooLarge("this body is too large for a form; lakemq produce sends a file")
    properties = own_properties(message)
    return {
        "topic": str(message.get("real_topic") or message["topic"]),
        "body": body,
        "body_encoding": str(message.get("body_encoding", "utf-8")),
        "tag": str(message.get("tag") or ""),
        "keys": ", ".join(message.get("keys") or ()),
        "ordering_key": str(message.get("ordering_key") or ""),
        "properties": "\n".join(f"{name}={value}" for name, value in properties.items()),
    }


async def send(visit: Visit) -> Response:
    """Store it, and show it."""
    values = {each: visit.field(each) for each in (*_FIELDS, "topic", "body_encoding")}
    values |= {each: visit.form.get(each, "").replace("\r\n", "\n") for each in ("body", "properties")}
    try:
        content = json.dumps({"messages": [_message(values)]}).encode()
        answer = await visit.broker.ask(routes.PRODUCE.at(values["topic"]), body=content, timeout_s=30.0)
    except LakemqError as error:
        if error.code in ("forbidden", "unauthenticated", "unreachable"):
            raise
        return visit.page("send.html", 400, values=values, problem=error.detail, again=False)
    stored = answer.json()["messages"][0]
    return visit.go(f"/messages/{stored['message_id']}", "sent")


def _message(values: Mapping[str, str]) -> dict[str, Any]:
    """As the contract has it. Raises `InvalidRequest`."""
    if not values["topic"]:
        raise InvalidRequest("a message needs a topic")
    message: dict[str, Any] = {"body": values["body"]}
    if values["body_encoding"] == "base64":
        try:
            b64decode("".join(values["body"].split()), validate=True)
        except (NoBase64, ValueError):
            raise InvalidRequest("the body isn't base64") from None
        message = {"body": "".join(values["body"].split()), "body_encoding": "base64"}
    if values["tag"]:
        message["tag"] = values["tag"]
    if keys := [each.strip() for each in values["keys"].split(",") if each.strip()]:
        message["keys"] = keys
    if values["ordering_key"]:
        message["ordering_key"] = values["ordering_key"]
    if properties := _properties(values["properties"]):
        message["properties"] = properties
    if values["delay_s"]:
        message["delay_ms"] = _delay_ms(values["delay_s"])
    return message


def _properties(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in text.split("\n"):
        name, separator, value = line.partition("=")
        if not line.strip():
            continue
        if not separator or not name.strip():
            raise InvalidRequest(f"a property is name=value, one per line, not {line[:60]!r}")
        found[name.strip()] = value.strip()
    return found


def _delay_ms(text: str) -> int:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 366 * 86_400:
        raise InvalidRequest(f"the delay is a number of seconds, up to a year, not {text[:40]!r}")
    return round(seconds * 1000)


ROUTES = (("GET", "/send", show), ("POST", "/send", send))
