"""A gateway that asks everybody who they are, with things in it that only some may see."""

from __future__ import annotations

import base64
from collections.abc import Generator, Mapping, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from lakemq.testing import GatewayProcess, start_gateway
from tests.fuzz_access.drawn import Answered, Names
from tests.gateway.access.asking import allow, ask_as, make_user, token_of

SECRET = "c4n4ry-in-the-coal-mine"
"""Stands in all that is the owner's: bodies, keys, tags, properties."""
HIDDEN = ("hidden-orders", "hidden-group", "hidden-sink", "victim")
"""Names that a user without rights is not told."""
OPEN = ("mine", "mine-too")
_FORMS = [SECRET.encode(), *(base64.b64encode(b"x" * at + SECRET.encode() * 2)[4:-4] for at in range(3))]
WAIT_MS_MAX = 10


class Scene(NamedTuple):
    """`tokens` by who it is: nobody's is empty. `names`: what requests may ask for."""

    gateway: GatewayProcess
    document: Mapping[str, Any]
    tokens: Mapping[str, str]
    names: Names


@contextmanager
def open_scene(folder: Path) -> Generator[Scene]:
    """A gateway with an owner's messages, groups, transactions, sinks and dead letters, and a user who may see none."""
    data = folder / "data"
    options = {"auth__required": "true", "gateway__wait_ms_max": WAIT_MS_MAX}
    with start_gateway(data, **options) as gateway, ask_as(gateway, token_of(data)) as admin:
        names = _fill(admin)
        limited = make_user(
            admin,
            "limited",
            allow("Topic:mine*", "Pub", "Sub", "Create", "Update", "Delete", "Get", "List"),
            allow("Group:mine*", "Pub", "Sub", "Update", "Delete", "Get"),
            allow("Sink:mine*", "Pub", "Get", "Delete"),
        )
        document = admin.get("/openapi.json").json()
        tokens = {"nobody": "", "limited": limited, "administrator": token_of(data)}
        yield Scene(gateway, document, tokens, names)


def _fill(admin: httpx.Client) -> Names:
    message = {"body": SECRET * 2, "tag": SECRET, "keys": [SECRET], "properties": {SECRET: SECRET}}
    topic, group, sink, victim = HIDDEN
    sent: list[str] = []
    for each in (topic, *OPEN):
        _made(admin.put(f"/v1/topics/{each}", json={"queues": 2}))
    sent += _ids(admin, f"/v1/topics/{topic}/messages", {"messages": [message] * 4})
    late = {**message, "delay_ms": 86_400_000}
    sent += _ids(admin, f"/v1/topics/{topic}/messages", {"messages": [late]})
    begun = admin.post(
        f"/v1/topics/{topic}/transactions", params={"producer_group": group}, json={"messages": [message]}
    )
    halves = [each["transaction_id"] for each in _made(begun)["transactions"]]
    received = _made(admin.post(f"/v1/groups/{group}/receive", json={"topic": topic, "max": 2, "wait_ms": 0}))
    receipts = [each["receipt"] for each in received["messages"]]
    _made(admin.put(f"/v1/users/{victim}", json={}))
    token_id = _made(admin.post(f"/v1/users/{victim}/tokens", json={}))["token_id"]
    mine = _ids(admin, "/v1/topics/mine/messages", {"messages": [{"body": "not so secret"}]})
    return {
        "topic": [topic, *OPEN, f"%RETRY%{group}", f"%DLQ%{group}", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_ACCESS_TOPIC"],
        "topics": [topic, f"mine,{topic}", "mine", "RMQ_SYS_AUDIT_TOPIC"],
        "pattern": [".*", "hidden.*", "mine.*", "(mine|hidden).*"],
        "group": [group, "mine-group", "mine"],
        "producer_group": [group, "mine"],
        "queue_id": ["0", "1"],
        "offset": ["0"],
        "from": ["0"],
        "to": ["100000000"],
        "key": [SECRET],
        "message_id": [*sent, *mine],
        "transaction_id": halves,
        "receipt": receipts,
        "sink": [sink, "mine-sink"],
        "user": [victim, "limited"],
        "token_id": [token_id],
        "timeout_ms": ["1"],
        "wait_ms": ["0", "5"],
    }


def _ids(admin: httpx.Client, path: str, body: Mapping[str, Any]) -> list[str]:
    return [each["message_id"] for each in _made(admin.post(path, json=body))["messages"]]


def _made(answer: httpx.Response) -> Any:
    assert answer.is_success, f"{answer.request.url}: {answer.text}"
    return answer.json() if answer.content else {}


def names_in(text: str) -> set[str]:
    """Hidden names that stand there."""
    return {name for name in HIDDEN if name in text}


def leaks(answered: Answered, named: Set[str] = frozenset()) -> Sequence[str]:
    """What of the owner's stands in an answer to who may not see it, and was not in the request. `named`: names that
    who asks has said before."""
    if any(form in answered.body for form in _FORMS) and SECRET not in answered.text:
        return [SECRET]
    return sorted(names_in(answered.body.decode("utf-8", "replace")) - named - names_in(answered.text))
