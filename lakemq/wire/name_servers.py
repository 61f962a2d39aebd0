"""Asking name servers which brokers there are, without an event loop."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from lakemq.contract import nameserver_routes
from lakemq.model.errors import InvalidRequest
from lakemq.model.names import to_url
from lakemq.model.primary import Claim, primary_of
from lakemq.model.trust import Trust
from lakemq.wire.connections import Connections, NoAnswer
from lakemq.wire.credentials import NOBODY
from lakemq.wire.left_out import why_left_out
from lakemq.wire.tls import NotTrusted

_ANSWER_S = 3.0
_OK = 200


class Replica(NamedTuple):
    """What a name server knows of one. `role`: primary or follower; `topics`: how many it has; `seen_ms_ago`: since its
    last heartbeat; `log_id`: of its log."""

    broker: str
    cluster: str
    replica: int
    address: str
    role: str
    epoch: int
    permission: str
    topics: int
    seen_ms_ago: int
    log_id: str


class NameServers:
    """Several, of which each knows all: the one that answered last is asked first. For one thread. They are shown no
    token: what they answer is for everybody, and tokens are for brokers."""

    def __init__(self, addresses: Sequence[str], trust: Trust | None = None) -> None:
        self.addresses = tuple(addresses)
        self._connections = [Connections(address, NOBODY, trust) for address in addresses]

    def primaries(self) -> dict[str, str]:
        """Address by name of each broker that has a primary; what would be asked by http although a name server is
        asked by https is left out. Raises `NoAnswer` when none of them answers so, or nothing but that."""
        of_brokers: dict[str, list[Replica]] = {}
        why = ""
        for each in self.replicas():
            if not (refused := why_left_out(self.addresses, each.broker, each.address)):
                of_brokers.setdefault(each.broker, []).append(each)
            why = why or refused
        if why and not of_brokers:
            raise NoAnswer(why, sent=False, refusal=NotTrusted(why))
        found = {broker: primary_of(replicas, _claim_of) for broker, replicas in of_brokers.items()}
        return {broker: primary.address for broker, primary in found.items() if primary is not None}

    def replicas(self) -> list[Replica]:
        """All replicas of all brokers, also such as aren't to be asked, by their names, as the first says that knows
        any: one that has just begun knows nobody yet. Raises `NoAnswer` when none of them answers so, with the
        `refusal` where it is a lasting one."""
        problem, empty, refusal = "there are no name servers", False, None
        for each in list(self._connections):
            try:
                answer = each.ask(nameserver_routes.CLUSTER.at(), timeout_s=_ANSWER_S)
                if answer.status == _OK:
                    if found := _read(json.loads(answer.body)):
                        self._connections.remove(each)
                        self._connections.insert(0, each)
                        return found
                    empty = True
                    continue
                refusal = answer.error(each.address)
                problem = f"{each.address} answered {answer.status}" if refusal is None else refusal.detail
            except NoAnswer as error:
                problem, refusal = f"{each.address}: {error}", error.refusal or refusal
            except (ValueError, KeyError, TypeError, AttributeError, InvalidRequest) as error:
                problem = f"{each.address} is no name server: {error!r}"
        if empty:
            return []
        lasting = refusal if refusal is not None and refusal.lasting else None
        raise NoAnswer(f"no name server answers: {problem}", sent=False, refusal=lasting)

    def close(self) -> None:
        """Close the connections."""
        for each in self._connections:
            each.close()


def _read(answer: Any) -> list[Replica]:
    return [
        Replica(
            broker["broker"],
            broker["cluster"],
            replica["replica"],
            to_url(replica["address"]),
            *(replica[name] for name in ("role", "epoch", "permission", "topics", "seen_ms_ago", "log_id")),
        )
        for broker in answer["brokers"]
        for replica in broker["replicas"]
    ]


def _claim_of(replica: Replica) -> Claim:
    return Claim(replica.replica, replica.role, replica.epoch)
