"""Errors in plain words: what it is, and what to do about it."""

from __future__ import annotations

from typing import NamedTuple

_STATUS = {
    "forbidden": 403,
    "unauthenticated": 401,
    "unreachable": 503,
    "untrusted": 503,
    "busy": 503,
    "closed": 503,
    "store_unwritable": 503,
    "not_enough_replicas": 503,
    "flow_control": 429,
    "message_too_large": 413,
    "group_in_use": 409,
    "not_leader": 409,
    "schema_changed": 409,
    "transaction_resolved": 409,
    "refused": 403,
    "internal": 502,
}


class Words(NamedTuple):
    """`detail`: what the broker says of it."""

    title: str
    detail: str
    todo: str


_WORDS = {
    "forbidden": ("Not allowed", "Ask an administrator for a policy that allows it (lakemq acl add)."),
    "unreachable": (
        "The broker doesn't answer",
        "Check that its process is running, and what its log says. Then load this page again.",
    ),
    "flow_control": ("Too many requests", "Wait a moment, then try again."),
    "busy": ("The broker is busy", "Wait a moment, then try again."),
    "store_unwritable": ("The broker accepts no messages", "Its disk is full or has failed; the overview says more."),
    "not_leader": ("This broker follows another", "Choose the leader."),
    "group_in_use": ("The group has members", "Stop its consumers first, then delete it."),
    "schema_changed": ("Somebody else was faster", "Look at the schema again, then decide."),
    "transaction_resolved": ("It already has the other outcome", "The producer, or somebody else, was faster."),
    "message_too_large": ("That is too large", "The broker's settings say how large a message may be."),
    "internal": ("Something went wrong", "The console's log has the details. The broker is not affected."),
    "page_not_found": ("Page not found", "Use the menu above."),
    "refused": ("This form was refused", ""),
}


def status_of(code: str) -> int:
    """Of the answer that shows it."""
    return 404 if code.endswith("_not_found") else _STATUS.get(code, 400)


def words_for(code: str, detail: str) -> Words:
    """What a page says."""
    if code in _WORDS:
        return Words(_WORDS[code][0], detail, _WORDS[code][1])
    if code.endswith("_not_found"):
        return Words("Not found", detail, "It may have been deleted in the meantime.")
    return Words("The broker refused that", detail, "")
