"""Queues that are read far behind the end of their broker's log, and at which follower: where an answer has said so."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

from lakemq.client.broker_requests import Found, ToReader
from lakemq.client.replicas import Said, ask_all
from lakemq.client.transport import Answer, Params
from lakemq.contract.headers import READ_AT
from lakemq.contract.route import Target
from lakemq.model.errors import LakemqError
from lakemq.model.message_queue import MessageQueue
from lakemq.model.names import keeps_tls, leader_address

logger = logging.getLogger("lakemq.client")

ANSWER_S = 5.0
"""A follower that takes longer is left: the leader has all that it has."""
AWAY_S = 30.0
"""So long nothing is asked at one that failed."""
QUEUES_MAX = 10_000
PLACES_MAX = 100
GOES_ON = ("found", "no_matched_message")
"""What a follower may answer. All else the leader says itself: the follower may have less of the queue, at its end, and
at its beginning."""


class _Place(NamedTuple):
    """A follower at `address`, of which the one that led from `leader` has told."""

    address: str
    leader: str


class FarReads:
    """Of one client. Lives on its event loop. An address that is told is believed as that of another leader is
    (`lakemq.client.broker_requests`)."""

    def __init__(self, found: Found) -> None:
        self._found = found
        self._places: dict[MessageQueue, _Place] = {}
        self._away_s: dict[str, float] = {}
        self._checked: set[_Place] = set()

    async def pull(
        self, queue: MessageQueue, target: Target, params: Params, headers: Mapping[str, str] | None, wait_s: float
    ) -> Answer:
        """A pull from the queue, which its broker may hold for `wait_s`: by a follower while that is far behind, else
        as `ToReader.request`, which says what is raised."""
        place = self._places.get(queue)
        if place is not None:
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
            await self._check(queue.broker, place)
            transport = self._found.connect(place.address)
            params = {**params, "wait_ms": 0}
            answer = await transport.request(target, params=params, headers=headers, timeout_s=ANSWER_S)
            goes_on = _status(answer) in GOES_ON
        except LakemqError as error:
            logger.info("%s is read at the leader again: %s", queue, error)
            self._checked.discard(place)
            self._away_s[place.address] = _now_s()
            return None
        if not goes_on:
            return None
        self._note(queue, place.leader, answer)
        return answer

    async def _check(self, broker: str, place: _Place) -> None:
        """Raise `LakemqError` unless both have the same log: an address may mean another broker here than there."""
        if place in self._checked:
            return
        said: list[Said] = []
        for each in (await ask_all(self._found.connect, place, ANSWER_S)).values():
            if isinstance(each, LakemqError):
                raise each
            said.append(each)
        if {(each.name, each.log_id) for each in said} != {(broker, said[0].log_id)}:
            raise LakemqError(f"{place.address} has another log than {place.leader}")
        if len(self._checked) >= PLACES_MAX:
            self._checked.clear()
        self._checked.add(place)

    def _note(self, queue: MessageQueue, leader: str, answer: Answer) -> None:
        """Where the queue is pulled from next."""
        self._places.pop(queue, None)
        said = answer.headers.get(READ_AT)
        if said is None:
            return
        address = leader_address(said)
        if address and address != leader and keeps_tls(leader, address) and not self._is_away(address):
            self._places[queue] = _Place(address, leader)
            if len(self._places) > QUEUES_MAX:
                del self._places[next(iter(self._places))]

    def _is_away(self, address: str) -> bool:
        now_s = _now_s()
        self._away_s = {each: since_s for each, since_s in self._away_s.items() if now_s - since_s < AWAY_S}
        return address in self._away_s


def _status(answer: Answer) -> str:
    """Raises `LakemqError` for what no pull is answered."""
    status = answer.headers.get("Lakemq-Status")
    if status is not None:
        return status
    content: Any = answer.json()
    try:
        return str(content["status"])
    except (KeyError, TypeError):
        raise LakemqError("this is no answer to a pull: is this a lakemq gateway?") from None


def _now_s() -> float:
    return asyncio.get_running_loop().time()
