"""Asking an etcd, 3.4 or later, by its JSON gateway: transactions of ranges and puts, and nothing else."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Sequence
from time import monotonic
from typing import Any, NamedTuple

from lakemq.contract.route import Target
from lakemq.wire.connections import Answer, Connections, NoAnswer
from lakemq.wire.credentials import NOBODY

TXN = Target("POST", "/v3/kv/txn")
ANSWER_BYTES_MAX = 1024 * 1024
_JSON = {"Content-Type": "application/json"}

Step = dict[str, Any]
"""A step of a transaction, as etcd spells it."""


class KeyValue(NamedTuple):
    """What a key holds, and since which revision of the store."""

    value: bytes
    revision: int


class Outcome(NamedTuple):
    """Which steps of a transaction were done, and what its ranges found, in their order."""

    succeeded: bool
    found: list[KeyValue | None]


def unchanged(key: str, revision: int) -> Step:
    """A condition: the key holds what it held at that revision; 0: it isn't there."""
    return {"key": _coded(key), "target": "MOD", "result": "EQUAL", "mod_revision": str(revision)}


def put(key: str, value: bytes) -> Step:
    """Have the key hold the value."""
    return {"request_put": {"key": _coded(key), "value": b64encode(value).decode()}}


def get(key: str) -> Step:
    """What the key holds, as the majority of the cluster has it."""
    return {"request_range": {"key": _coded(key)}}


class Etcd:
    """One cluster, by the addresses of its members. For one thread at a time."""

    def __init__(self, addresses: Sequence[str], answer_s: float) -> None:
        """All members together are waited for `answer_s`, or a little longer where answers come slowly."""
        self._members = [Connections(each, NOBODY) for each in addresses]
        self._answer_s = answer_s
        self._at = 0
        """The member that is asked first: who answered last."""

    def transact(self, conditions: Sequence[Step], steps: Sequence[Step], otherwise: Sequence[Step] = ()) -> Outcome:
        """Do the steps where all conditions hold, else the others. Members are asked in turn until one answers, so
        where the answer of one was lost the steps may be done twice. Raises `OSError`: they may be done."""
        body = json.dumps({"compare": [*conditions], "success": [*steps], "failure": [*otherwise]}).encode()
        ends_s = monotonic() + self._answer_s
        problems = list[str]()
        for _ in self._members:
            member = self._members[self._at]
            try:
                return _outcome(self._ask(member, body))
            except (NoAnswer, ValueError) as error:
                problems.append(f"{member.address}: {error}")
                self._at = (self._at + 1) % len(self._members)
            if monotonic() >= ends_s:
                break
        raise OSError(f"etcd doesn't answer: {'; '.join(problems)}")

    def _ask(self, member: Connections, body: bytes) -> Answer:
        each_s = self._answer_s / len(self._members)
        return member.ask(TXN, None, body, _JSON, each_s, ANSWER_BYTES_MAX)

    def close(self) -> None:
        """Close its connections."""
        for each in self._members:
            each.close()


def _coded(key: str) -> str:
    return b64encode(key.encode()).decode()


def _outcome(answer: Answer) -> Outcome:
    """Raises `ValueError` for an answer that isn't etcd's, or says that it can't."""
    if answer.status != 200:
        raise ValueError(f"it answered {answer.status}: {answer.body[:200].decode(errors='replace')}")
    try:
        said = json.loads(answer.body)
        ranges = [each["response_range"] for each in said.get("responses", ()) if "response_range" in each]
        return Outcome(bool(said.get("succeeded", False)), [_first(each.get("kvs", ())) for each in ranges])
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"this is no answer of etcd: {error!r}") from None


def _first(found: Sequence[Any]) -> KeyValue | None:
    return KeyValue(b64decode(found[0].get("value", "")), int(found[0]["mod_revision"])) if found else None
