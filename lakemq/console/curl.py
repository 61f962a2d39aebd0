"""A message as the command that sends it: for a shell, whatever is in it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

SENT = ("body", "body_encoding", "tag", "keys", "properties", "ordering_key")
"""What of an answer's fields a request has again."""
COPIED_MAX = 64 * 1024
"""Characters of a body that a command line takes."""


def sent_again(message: Mapping[str, Any]) -> dict[str, Any]:
    """The message as a request has it."""
    return {name: message[name] for name in SENT if message.get(name) not in (None, "", [], {})} | {
        "body": message.get("body", "")
    }


def command(address: str, topic: str, message: Mapping[str, Any], with_token: bool) -> str:
    """The command that sends it; empty where its body is too long for one. The token is named, and never shown."""
    if len(str(message.get("body", ""))) > COPIED_MAX:
        return ""
    content = json.dumps({"messages": [sent_again(message)]}, ensure_ascii=False)
    lines = [
        f"curl -sS -X POST {shlex.quote(f'{address}/v1/topics/{topic}/messages')}",
        *(['  -H "Authorization: Bearer $LAKEMQ_TOKEN"'] if with_token else []),
        "  -H 'Content-Type: application/json'",
        f"  -d {shlex.quote(content)}",
    ]
    return " \\\n".join(lines)
