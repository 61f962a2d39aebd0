"""Queues that are read far behind the end of their broker's log, and at which follower: where an answer has said so."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

from lakemq.client.broker_requests import Found, ToReader
from lakemq.client.replicas import ask_all
from lakemq.client.transport import Answer, Params
from lakemq.contract.headers import READ_AT
from lakemq.contract.route import Target
from lakemq.model.errors import LakemqError
from lakemq.model.message_queue import MessageQueue
from lakemq.model.names import keeps_tls, leader_address
from lakemq.model.network import leads_home

logger = logging.getLogger("lakemq.client")

ANSWER_S = 5.0
"""A follower that takes longer is left: the leader has all that it has."""
AWAY_S, AWAY_S_MAX = 30.0, 600.0
"""So long nothing is asked at one that failed; each time twice as long, until it answers again."""
AWAY_MAX = 100
QUEUES_MAX = 10_000
PLACES_MAX = 100
GOES_ON = ("found", "no_matched_message")
"""What a follower may answer. All else the leader says itself: the follower may have less of the queue, at its end, and
at its beginning, and a hole where the leader has a message."""


class _Place(NamedTuple):
    """A follower at `address`, of which the one that led from `leader` has told."""

    address: str
    leader: str


class _Away(NamedTuple):
    """An address that failed: nothing is asked there for `pause_s`, until `until_s`."""

    pause_s: float
    until_s: float


class FarReads:
    """Of one client. Lives on its event loop. An address that is told is gone to as that of another leader is
    (`lakemq.client.broker_requests`); a user who may follow as a replica can choose it (docs/security.md)."""

    def __init__(self, found: Found) -> None:
        self._found = found
        self._places: dict[MessageQueue, _Place] = {}
        self._away: dict[str, _Away] = {}
        self._checked: set[_Place] = set()
        self._checking: set[_Place] = set()

    async def pull(
        self, queue: MessageQueue, target: Target, params: Params, headers: Mapping[str, str] | None, wait_s: float
    ) -> Answer:
        """A pull from the queue, which its broker may hold for `wait_s`: by a follower while that is far behind, else
        as `ToReader.request`, which says what is raised."""
        place = self._places.get(queue)
        if place is not None and place not in self._checking:
            answer = await self._pull_at(queue, place, target, params, headers)
            if answer is not None:
                return answer
            self._places.pop(queue, None)
        answer = await ToReader(self._found, queue.broker).request(target, params, headers, wait_s)
        self._note(queue, self._leader(queue), answer)
        return answer

    def _leader(self, queue: MessageQueue) -> str:
        known = self._found.places.get(queue.broker)
        return "" if known is None else known.address

    async def _pull_at(
        self, queue: MessageQueue, place: _Place, target: Target, params: Params, headers: Mapping[str, str] | None
    ) -> Answer | None:
        """What the follower answers at once; None: the leader is to be asked."""
        if place.leader != self._leader(queue):
            return None
        try:
            if not await self._is_same_log(queue.broker, place):
                return None
            transport = self._found.connect(place.address)
            params = {**params, "wait_ms": 0}
            answer = await transport.request(target, params=params, headers=headers, timeout_s=ANSWER_S)
            has_all = goes_on(answer)
        except LakemqError as error:
            logger.info("%s is read at the leader again: %s", queue, error)
            self._checked.discard(place)
            self._put_away(place.address)
            return None
        self._away.pop(place.address, None)
        if not has_all:
            return None
        self._note(queue, place.leader, answer)
        return answer

    async def _is_same_log(self, broker: str, place: _Place) -> bool:
        """Whether both have the same one: an address may mean another broker here than there. False: the leader doesn't
        say. Raises `LakemqError` where the follower doesn't, or has another."""
        if place in self._checked:
            return True
        self._checking.add(place)
        try:
            said = await ask_all(self._found.connect, place, ANSWER_S)
        finally:
            self._checking.discard(place)
        there, here = said[place.address], said[place.leader]
        if isinstance(there, LakemqError):
            raise there
        if isinstance(here, LakemqError):
            return False
        if (there.name, there.log_id) != (broker, here.log_id):
            raise LakemqError(f"{place.address} has another log than {place.leader}")
        if len(self._checked) >= PLACES_MAX:
            self._checked.clear()
        self._checked.add(place)
        return True

    def _note(self, queue: MessageQueue, leader: str, answer: Answer) -> None:
        """Where the queue is pulled from next."""
        self._places.pop(queue, None)
        said = answer.headers.get(READ_AT)
        if said is None or not leader:
            return
        address = leader_address(said)
        if address and _may_go(leader, address) and not self._is_away(address):
            self._places[queue] = _Place(address, leader)
            if len(self._places) > QUEUES_MAX:
                del self._places[next(iter(self._places))]

    def _is_away(self, address: str) -> bool:
        away = self._away.get(address)
        return away is not None and _now_s() < away.until_s

    def _put_away(self, address: str) -> None:
        before = self._away.pop(address, None)
        pause_s = AWAY_S if before is None else min(2 * before.pause_s, AWAY_S_MAX)
        self._away[address] = _Away(pause_s, _now_s() + pause_s)
        if len(self._away) > AWAY_MAX:
            del self._away[next(iter(self._away))]


def _may_go(leader: str, address: str) -> bool:
    """Whether a client goes there: never without TLS where the leader has it, nor to what is itself here and was
    another machine there."""
    return address != leader and keeps_tls(leader, address) and (leads_home(leader) or not leads_home(address))


def goes_on(answer: Answer) -> bool:
    """Whether it is all that the leader would answer. Raises `LakemqError` for what no pull is answered."""
    status = answer.headers.get("Lakemq-Status")
    if status is not None:
        return status in GOES_ON and "Lakemq-Holes" not in answer.headers
    content: Any = answer.json()
    try:
        return content["status"] in GOES_ON and not content.get("holes")
    except (AttributeError, KeyError, TypeError):
        raise LakemqError("this is no answer to a pull: is this a lakemq gateway?") from None


def _now_s() -> float:
    return asyncio.get_running_loop().time()
