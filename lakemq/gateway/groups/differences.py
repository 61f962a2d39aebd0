"""How the subscriptions of a group's members differ. They must not: a queue is consumed by one member,
so a message that only others want would be lost to the group."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from lakemq.gateway.http.in_slices import Pause, in_order
from lakemq.model.names import retry_topic
from lakemq.storage.state.group_state import Group
from lakemq.storage.state.member import Member, Subscription

SHOWN_MAX = 10
AT_ONCE = 2_000
"""So many subscriptions are looked at on the loop."""
Sees = Callable[[str], bool]
"""Whether who asks is shown a topic, with what there is in it."""


async def subscriptions_of(group: Group) -> list[Subscription]:
    """What the members subscribe to, each once, sorted."""
    pause, found = Pause(), set[Subscription]()
    for subscriptions in list(group.kinds):
        found.update(subscriptions)
        await pause()
    return await in_order(list(found))


async def differences(group: Group) -> list[dict[str, Any]]:
    """The topics that not all members subscribe to alike: which subscriptions there are, and whose;
    of topics, and of the clients of one, the first few. The group's retry topic needs none. As of the call: of many
    members that is found in a thread."""
    if len(group.kinds) == 1:  # nearly always: a look at each member would make a group's start slow
        return []
    members = group.members.copy()
    if len(members) * max(map(len, group.kinds), default=0) <= AT_ONCE:
        return _differences(group.name, members)
    return await asyncio.to_thread(_differences, group.name, members)


def _differences(name: str, members: dict[str, Member]) -> list[dict[str, Any]]:
    found: dict[str, dict[tuple[str, str], list[str]]] = {}
    retry = retry_topic(name)
    for client_id, member in sorted(members.items()):
        for each in member.subscriptions:
            if each.topic != retry:
                found.setdefault(each.topic, {}).setdefault(_normal(each), []).append(client_id)
    differing = [
        topic
        for topic, kinds in sorted(found.items())
        if len(kinds) > 1 or len(next(iter(kinds.values()))) < len(members)
    ]
    return [_describe(members, topic, found[topic]) for topic in differing[:SHOWN_MAX]]


def _describe(members: dict[str, Member], topic: str, kinds: dict[tuple[str, str], list[str]]) -> dict[str, Any]:
    subscribed = {client_id for clients in kinds.values() for client_id in clients}
    return {
        "topic": topic,
        "subscriptions": [
            {"type": kind, "expression": expression, "client_ids": clients[:SHOWN_MAX]}
            for (kind, expression), clients in sorted(kinds.items())[:SHOWN_MAX]
        ],
        "without": sorted(members.keys() - subscribed)[:SHOWN_MAX],
    }


def _normal(subscription: Subscription) -> tuple[str, str]:
    """Type and expression, the same for expressions that only look different."""
    expression = subscription.expression.strip()
    if subscription.type == "tag":
        expression = "||".join(sorted({tag.strip() for tag in expression.split("||")})) or "*"
    return subscription.type, expression
