"""Which of a broker's replicas leads it, asked of themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from lakemq.client.errors import Unreachable
from lakemq.client.route_source import BrokerAddress, Connect
from lakemq.contract import routes
from lakemq.model.errors import LakemqError
from lakemq.model.names import leader_address, may_follow
from lakemq.model.primary import PRIMARY, Claim, primary_of

LOOK_TIMEOUT_S = 1.0
"""All replicas are asked at the same time which one leads. One that hangs delays the others for no longer than this."""
FIRST_TIMEOUT_S = 10.0
"""So long is waited for an answer while no broker is known yet: that delays no other. A program may start on a busy
machine."""
REPLICAS_MAX = 16
"""Of one broker: as many as a name server knows."""


class Said(NamedTuple):
    """What a replica says that it is. `leader`: whom it follows, as far as it says so."""

    name: str
    replica: int
    role: str
    epoch: int
    log_id: str
    leader: str

    @property
    def claim(self) -> Claim:
        """By which the primary is found."""
        return Claim(self.replica, self.role, self.epoch)


Answers = Mapping[str, Said | LakemqError]
"""What replicas say of themselves, or why they say nothing, by address."""


async def ask_all(
    connect: Connect, addresses: Iterable[str], timeout_s: float | None = None
) -> dict[str, Said | LakemqError]:
    """Ask replicas what they are, all together; `timeout_s`: `LOOK_TIMEOUT_S` without it."""
    asked = list(dict.fromkeys(addresses))[:REPLICAS_MAX]
    answers = await asyncio.gather(*(_ask(connect, address, timeout_s or LOOK_TIMEOUT_S) for address in asked))
    return dict(zip(asked, answers, strict=True))


async def who_leads(connect: Connect, before: BrokerAddress) -> BrokerAddress:
    """Where a broker is, as its replicas say that are known, and those that these name. It has no primary where none
    says that it is that; but one that was, and merely doesn't answer in time, goes on to be taken for it."""
    answers = await ask_all(connect, filter(None, (before.address, *before.followers)))
    said = _of(before.name, answers)
    further = {each.leader for address, each in said.items() if may_follow(address, each.leader)} - answers.keys()
    return place_of(before, {**answers, **await ask_all(connect, further)})


def place_of(before: BrokerAddress, answers: Answers) -> BrokerAddress:
    """As `who_leads`, by these answers. Those that answered stand first among the followers."""
    said = _of(before.name, answers)
    if not said:
        return before
    found = primary_of(said.items(), lambda each: each[1].claim)
    address = found[0] if found is not None else before.address if _is_silent(answers.get(before.address)) else ""
    known = dict.fromkeys((*said, *before.followers, before.address))
    return before._replace(address=address, followers=tuple(each for each in known if each and each != address))


def read_said(answer: Any) -> Said:
    """What a broker answers of itself. Raises `LakemqError` for what no broker answers."""
    try:
        name, replica, role = answer["name"], answer.get("replica", 0), answer.get("role", PRIMARY)
        epoch, log_id = answer.get("epoch", 0), answer.get("log_id", "")
    except (KeyError, TypeError, AttributeError) as error:
        raise LakemqError(f"this is no broker's answer: {error!r}") from None
    texts = all(isinstance(each, str) for each in (name, role, log_id))
    if not texts or type(replica) is not int or type(epoch) is not int:
        raise LakemqError(f"this is no broker's answer: {name!r:.100} {replica!r:.100} {role!r:.100} {epoch!r:.100}")
    return Said(name, replica, role, epoch, log_id, leader_address(answer.get("primary")))


async def _ask(connect: Connect, address: str, timeout_s: float) -> Said | LakemqError:
    try:
        return read_said(await connect(address).get(routes.BROKER.at(), timeout_s=timeout_s))
    except LakemqError as error:
        return error


def _of(name: str, answers: Answers) -> dict[str, Said]:
    return {address: said for address, said in answers.items() if isinstance(said, Said) and said.name == name}


def _is_silent(answer: Said | LakemqError | None) -> bool:
    return isinstance(answer, Unreachable) and answer.sent
