"""How the subscriptions of a group's members differ. They must not: a queue is consumed by one member,
so a message that only others want would be lost to the group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lakemq.model.names import retry_topic
from lakemq.storage.state.group_state import Group
from lakemq.storage.state.member import Subscription

SHOWN_MAX = 10
Sees = Callable[[str], bool]
"""Whether who asks is shown a topic, with what there is in it."""


def subscriptions_of(group: Group) -> list[Subscription]:
    """What the members subscribe to, each once, sorted."""
    return sorted({each for subscriptions in group.kinds for each in subscriptions})


def differences(group: Group) -> list[dict[str, Any]]:
    """The topics that not all members subscribe to alike: which subscriptions there are, and whose;
    of topics, and of the clients of one, the first few. The group's retry topic needs none."""
    if len(group.kinds) == 1:  # nearly always: a look at each member would make a group's start slow
        return []
    found: dict[str, dict[tuple[str, str], list[str]]] = {}
    for client_id, member in sorted(group.members.items()):
        for each in member.subscriptions:
            if each.topic != retry_topic(group.name):
                found.setdefault(each.topic, {}).setdefault(_normal(each), []).append(client_id)
    differing = [
        topic
        for topic, kinds in sorted(found.items())
        if len(kinds) > 1 or len(next(iter(kinds.values()))) < len(group.members)
    ]
    return [_describe(group, topic, found[topic]) for topic in differing[:SHOWN_MAX]]


def _describe(group: Group, topic: str, kinds: dict[tuple[str, str], list[str]]) -> dict[str, Any]:
    subscribed = {client_id for clients in kinds.values() for client_id in clients}
    return {
        "topic": topic,
        "subscriptions": [
            {"type": kind, "expression": expression, "client_ids": clients[:SHOWN_MAX]}
            for (kind, expression), clients in sorted(kinds.items())[:SHOWN_MAX]
        ],
        "without": sorted(group.members.keys() - subscribed)[:SHOWN_MAX],
    }


def _normal(subscription: Subscription) -> tuple[str, str]:
    """Type and expression, the same for expressions that only look different."""
    expression = subscription.expression.strip()
    if subscription.type == "tag":
        expression = "||".join(sorted({tag.strip() for tag in expression.split("||")})) or "*"
    return subscription.type, expression
