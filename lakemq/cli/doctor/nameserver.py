"""What name servers say of the brokers, and what of that is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from lakemq.cli.doctor.broker import Broker
from lakemq.cli.doctor.finding import Finding, Grade
from lakemq.model.primary import PRIMARY
from lakemq.wire.name_servers import Replica


class NameServer(NamedTuple):
    """One: what it knows, or the `problem` why it doesn't say that."""

    address: str
    replicas: Sequence[Replica] = ()
    problem: str = ""


Named = tuple[str, int]
"""A broker's name, and the number of its replica."""


def findings_of(servers: Sequence[NameServer], brokers: Sequence[Broker]) -> Iterator[Finding]:
    """What is wrong with what they say, among them and of these brokers that were asked themselves."""
    for each in servers:
        if each.problem:
            do = "start that name server, or take it out of fleet.nameservers; clients ask the others meanwhile"
            yield Finding(Grade.WRONG, each.address, each.problem, do)
    answering = [each for each in servers if not each.problem]
    if not answering:
        what = "no name server answers: clients that start find no broker, and others learn of none that is new"
        yield Finding(Grade.DOWN, "name servers", what, "start one of them: `lakemq nameserver`")
    elif not any(each.replicas for each in answering):
        what, do = "they know no broker: clients find none", "start the brokers, with these in their fleet.nameservers"
        yield Finding(Grade.DOWN, "name servers", what, do)
    yield from _without_primary([replica for each in answering for replica in each.replicas])
    asked = {_named(each): each for each in brokers if each.described}
    for each in answering:
        for named, broker in sorted(asked.items()):
            yield from _of_broker(each, named, broker)
    known = {(each.broker, each.replica) for server in answering for each in server.replicas}
    for named in sorted(known.difference(asked)):
        said = {each.address: _said(_found(each, named)) for each in answering}
        if len(set(said.values())) > 1:
            what = f"they differ on {_called(named)}: " + "; ".join(f"{who} {what}" for who, what in said.items())
            yield Finding(Grade.WRONG, "name servers", what, _LOOK)


def _without_primary(replicas: Sequence[Replica]) -> Iterator[Finding]:
    led = {each.broker for each in replicas if each.role == PRIMARY}
    for name in sorted({each.broker for each in replicas} - led):
        what = "no name server knows a primary of it: nobody can send to it"
        yield Finding(Grade.DOWN, name, what, "start its primary, or see in its replicas' /readyz why none is elected")


def lines_of(servers: Sequence[NameServer], brokers: Sequence[Broker]) -> Iterator[str]:
    """Which of them answer, and what each says of these brokers."""
    asked = sorted(_named(each) for each in brokers if each.described)
    for each in servers:
        if each.problem:
            yield f"{each.address} doesn't answer"
        elif not asked:
            yield f"{each.address} answers, and knows {len(each.replicas)} replicas"
        else:
            yield f"{each.address} " + "; ".join(f"{_said(_found(each, named))} ({_called(named)})" for named in asked)


_LOOK = "ask again after its next heartbeat (30 s); if it stays so, see `degraded` in that broker's /readyz"


def _of_broker(server: NameServer, named: Named, broker: Broker) -> Iterator[Finding]:
    found = _found(server, named)
    if found is None:
        what = f"it doesn't know {_called(named)}, which answers at {broker.address}: clients don't find it there"
        do = f"list this name server in that broker's fleet.nameservers, and see whether its token is taken; {_LOOK}"
        yield Finding(Grade.WRONG, server.address, what, do)
        return
    own = broker.described.get("role"), broker.described.get("epoch")
    if (found.role, found.epoch) != own:
        what = f"it {_said(found)}: {_called(named)}, which itself says that it is {own[0]} in epoch {own[1]}"
        yield Finding(Grade.WRONG, server.address, what, _LOOK)


def _named(broker: Broker) -> Named:
    described: Mapping[str, object] = broker.described
    return str(described.get("name", "")), int(str(described.get("replica", 0)))


def _called(named: Named) -> str:
    return f"replica {named[1]} of {named[0]}"


def _found(server: NameServer, named: Named) -> Replica | None:
    return next((each for each in server.replicas if (each.broker, each.replica) == named), None)


def _said(found: Replica | None) -> str:
    return "doesn't know it" if found is None else f"knows it as {found.role} in epoch {found.epoch}"
