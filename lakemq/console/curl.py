"""A message as the command that sends it: for a shell, whatever is in it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from lakemq.model.failure import with_failure
from lakemq.model.names import HALF_TOPIC, SCHEDULE_TOPIC

SENT = ("body", "body_encoding", "tag", "keys", "properties", "ordering_key", "ttl_ms", "priority")
"""What of an answer's fields a request has again."""
DELAY_MS_MAX = 366 * 86_400_000
"""A delay that is over is kept up to this."""
COPIED_MAX = 64 * 1024
"""Characters of a body that a command line takes."""


def sent_again(message: Mapping[str, Any]) -> dict[str, Any]:
    """The message as a request has it, without what the broker wrote into it."""
    found = {name: message[name] for name in SENT if message.get(name) not in (None, "", [], {})}
    if kept := own_properties(message):
        found["properties"] = kept
    else:
        found.pop("properties", None)
    return found | {"body": message.get("body", "")}


def own_properties(message: Mapping[str, Any]) -> dict[str, str]:
    """Its producer's: without the reason that a retry or a dead letter has."""
    return with_failure(message.get("properties"), None) or {}


def delay_of(first: Mapping[str, Any], now_ms: int) -> dict[str, int]:
    """The delay of a message as it was first stored: its time as long as that is to come, else as long as it was.
    Of a half or a retry the time is the broker's own."""
    due_ms = first.get("deliver_at_ms")
    if due_ms is None or first["topic"] == HALF_TOPIC or first.get("reconsume_times"):
        return {}
    if due_ms > now_ms:
        return {"deliver_at_ms": due_ms}
    began_ms = first["store_time_ms"] if first["topic"] == SCHEDULE_TOPIC else first["born_time_ms"]
    return {"delay_ms": due_ms - began_ms} if 0 < due_ms - began_ms <= DELAY_MS_MAX else {}


def command(
    address: str, topic: str, message: Mapping[str, Any], with_token: bool, delay: Mapping[str, int] | None = None
) -> str:
    """The command that sends it; empty where its body is too long for one. The token is named, and never shown."""
    if len(str(message.get("body", ""))) > COPIED_MAX:
        return ""
    content = json.dumps({"messages": [sent_again(message) | dict(delay or {})]}, ensure_ascii=False)
    lines = [
        f"curl -sS -X POST {shlex.quote(f'{address}/v1/topics/{topic}/messages')}",
        *(['  -H "Authorization: Bearer $LAKEMQ_TOKEN"'] if with_token else []),
        "  -H 'Content-Type: application/json'",
        f"  -d {shlex.quote(content)}",
    ]
    return " \\\n".join(lines)
