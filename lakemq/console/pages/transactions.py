"""Ending an open transaction on behalf of its producer, after a confirmation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from lakemq.console.asked import Who
from lakemq.console.visit import Visit
from lakemq.contract import waiting_routes
from lakemq.model.access import Action
from lakemq.model.errors import InvalidRequest

ANSWER_S = 30.0
WORDS = {
    "commit": (
        "Commit this transaction?",
        "Its message is delivered to all groups that consume the topic, as if the producer had committed it.",
        "Commit",
        "committed",
    ),
    "rollback": (
        "Roll back this transaction?",
        "Its message is never delivered. It stays in the log and the lake.",
        "Roll back",
        "rolled-back",
    ),
}


def may_end(who: Who, transaction: Mapping[str, Any]) -> bool:
    """Whether a page offers it: as its producer may, and nobody has yet."""
    group, topic = transaction["group"], transaction["topic"]
    may = who.may_on_group(Action.PUB, group) and who.may_on_topic(Action.PUB, topic)
    return may and transaction["resolution"] is None


def _asked(visit: Visit) -> tuple[str, str, str]:
    found = visit.field("half_id"), visit.field("group"), visit.field("resolution")
    if not found[0] or not found[1] or found[2] not in WORDS:
        raise InvalidRequest("this form names no transaction, or no way to end it")
    return found


async def ask_end(visit: Visit) -> Response:
    """What it would do."""
    half_id, group, resolution = _asked(visit)
    await visit.who()
    title, text, button, _ = WORDS[resolution]
    keys = visit.field("keys")
    return visit.page(
        "confirm.html",
        title=title,
        text=text,
        lines=[f"half message {half_id}", f"producer group {group}", f"topic {visit.field('topic')}"]
        + ([f"keys {keys}"] if keys else []),
        warning="The producer may be about to do the opposite. The first decision counts, and can't be undone. "
        "Find out what the producer did before you decide for it.",
        crumbs=[("/waiting", "What waits")],
        action="/waiting/transaction/end",
        fields={"half_id": half_id, "group": group, "resolution": resolution},
        button=button,
        back="/waiting",
    )


async def end(visit: Visit) -> Response:
    """Do it."""
    half_id, group, resolution = _asked(visit)
    target = waiting_routes.RESOLVE_OPEN.at(group, half_id)
    await visit.broker.ask(target, body=json.dumps({"resolution": resolution}).encode(), timeout_s=ANSWER_S)
    return visit.go("/waiting", WORDS[resolution][3])


ROUTES = (
    ("POST", "/waiting/transaction", ask_end),
    ("POST", "/waiting/transaction/end", end),
)
