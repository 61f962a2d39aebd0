"""A member of a group, as it says that it is."""

from __future__ import annotations

from typing import Any, NamedTuple

MEMBER_CHARACTERS = 100
"""What a member, and each of its subscriptions, takes beside its texts."""


class Subscription(NamedTuple):
    """What of a topic a member wants. `type`: `tag` or `sql92`."""

    topic: str
    type: str
    expression: str


class Member(NamedTuple):
    """A member of a group, as it says that it is."""

    model: str
    consume_from: str
    consume_timestamp_ms: int | None
    subscriptions: tuple[Subscription, ...]


def member_fields(member: Member) -> dict[str, Any]:
    """The member as JSON values."""
    return {**member._asdict(), "subscriptions": [each._asdict() for each in member.subscriptions]}


def size_of(client_id: str, member: Member) -> int:
    """About how many characters of memory a member takes."""
    return (
        MEMBER_CHARACTERS
        + len(client_id)
        + sum(MEMBER_CHARACTERS + len(each.topic) + len(each.expression) for each in member.subscriptions)
    )


def topics_of(member: Member | None) -> set[str]:
    """The topics that the member, if there is one, subscribes to."""
    return set() if member is None else {each.topic for each in member.subscriptions}


def member_of(content: dict[str, Any]) -> Member:
    """What `member_fields` said."""
    subscriptions = tuple(Subscription(**each) for each in content["subscriptions"])
    return Member(content["model"], content["consume_from"], content["consume_timestamp_ms"], subscriptions)
