"""The replicas of brokers: all that there are, what each says of itself, and who leads."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import typer

from lakemq.cli.brokers import ask_fleet
from lakemq.cli.options import broker_url, name_servers
from lakemq.model.errors import InvalidRequest, LakemqError
from lakemq.model.names import why_not_asked
from lakemq.model.primary import Claim, primary_of

ASKED_TOGETHER = 16
ANSWER_S = 3.0


class Replica(NamedTuple):
    """One, as name servers know it, or as it is all that is known: its address. `said`: what it says of itself;
    `problem`: why it says nothing."""

    broker: str
    address: str
    known: dict[str, Any]
    said: dict[str, Any]
    problem: str = ""

    @property
    def number(self) -> int:
        """Of the broker's."""
        return int(self.of("replica", 0))

    def of(self, name: str, otherwise: Any = None) -> Any:
        """What it says itself goes before what others know."""
        return self.said.get(name, self.known.get(name, otherwise))

    @property
    def claim(self) -> Claim:
        """By which the primary is found; who doesn't answer is none."""
        return Claim(self.number, str(self.said.get("role", "")), int(self.of("epoch", 0)))


def find_replicas(context: typer.Context, broker: str | None, nameservers: str | None) -> list[Replica]:
    """All that name servers know, or those at the addresses that are given; each is asked. Raises `Unreachable` where
    no name server answers, and where nobody does who was named."""
    servers = name_servers(context, broker, nameservers)
    if servers:
        known = [each._asdict() for each in ask_fleet(servers, lambda asked: asked.replicas())]
    else:
        known: list[dict[str, Any]] = [{"address": url} for url in broker_url(context, broker).split(",")]
    with ThreadPoolExecutor(ASKED_TOGETHER) as pool:
        found = list(pool.map(partial(_ask, servers), known))
    if not servers and not any(each.said for each in found):
        from lakemq.client.errors import Unreachable

        raise Unreachable(found[0].problem, sent=False)
    return sorted(found, key=lambda each: (each.broker, each.number, each.address))


def of_one_broker(replicas: Sequence[Replica], name: str | None) -> list[Replica]:
    """Those of the broker of that name; without one of the only broker that there is. Raises `InvalidRequest`."""
    names = sorted({each.broker for each in replicas if each.broker})
    if name is None and len(names) > 1:
        raise InvalidRequest(f"there are several brokers: say which of {', '.join(names)}")
    if name is not None and name not in names:
        raise InvalidRequest(f"no broker is called {name!r}; there are {', '.join(names) or 'none'}")
    return [each for each in replicas if name is None or each.broker == name]


def leader_of(replicas: Sequence[Replica]) -> Replica | None:
    """Who says that it leads, of one broker's replicas."""
    return primary_of(replicas, lambda each: each.claim)


def address_of_leader(replicas: Sequence[Replica]) -> str:
    """Where to ask who leads: there, or at a replica that says where that is. Raises `Unreachable` where none does."""
    from lakemq.client.errors import Unreachable

    leader = leader_of(replicas)
    if leader is not None:
        return leader.address
    named = next((each.address for each in replicas if each.said.get("primary")), None)
    if named is None:
        said = "; ".join(f"{each.address}: {each.problem or each.of('role')}" for each in replicas)
        raise Unreachable(f"no replica leads the broker now ({said})", sent=False)
    return named


def leaders(replicas: Sequence[Replica]) -> dict[str, Replica | None]:
    """Who leads each broker."""
    by_name: dict[str, list[Replica]] = {}
    for each in replicas:
        by_name.setdefault(each.broker, []).append(each)
    return {name: leader_of(each) for name, each in by_name.items()}


def _ask(servers: Sequence[str], known: dict[str, Any]) -> Replica:
    from lakemq.client.http import HttpClient

    address = str(known["address"])
    if why := why_not_asked(servers, address):
        return Replica(str(known.get("broker", "")), address, known, {}, why)
    try:
        with HttpClient(address, ANSWER_S) as client:
            said = client.broker()
        return Replica(str(said["name"]), address, known, said)
    except LakemqError as error:
        return Replica(str(known.get("broker", "")), address, known, {}, error.detail)
    except (KeyError, TypeError, AttributeError):
        return Replica(str(known.get("broker", "")), address, known, {}, "this is no broker's answer")
