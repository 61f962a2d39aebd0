"""Requests to a broker, at whichever of its replicas is to answer them: what writes goes to its primary, what reads
to a follower while there is none.

An answer that names another leader is believed: whoever can answer in a broker's name could as well answer falsely.
But it is an address of the network, so it is followed a few times for a request, and never from https to http. A
token that was given goes there too: who names the address has had it already. One that was found on this machine
doesn't (`lakemq.wire.credentials`).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol

import orjson

from lakemq.client.errors import Unreachable
from lakemq.client.places import Places
from lakemq.client.route_source import BrokerAddress
from lakemq.client.transport import ANSWER_TIMEOUT_S, Answer, Body, Params, Transport
from lakemq.contract.forms import JSON
from lakemq.contract.route import Target
from lakemq.model.errors import NotLeader, OverQuota

HOPS_MAX = 3
"""So often one request goes where an answer sends it: two replicas that each name the other are left."""
SWITCH_S = 10.0
"""How long a broker with several replicas is waited for while none leads it. A switch takes half of that."""
PAUSE_S = 0.2
LATE_S = 3.0
"""An answer that is so late has it looked who leads."""
READS_MAX = 8
"""So many replicas are tried for one question, one that was tried before included."""

Exchange = Callable[[Transport, float], Coroutine[Any, Any, Answer]]
"""One with a replica, in so many seconds."""


class Found(Protocol):
    """Where brokers are, and the way there."""

    places: Places

    def connect(self, address: str) -> Transport:
        """The connections to an address: the same ones each time."""
        ...

    async def find(self, broker: str, settled: bool = True) -> BrokerAddress:
        """Where the broker is; `settled`: once it isn't looked for any more who leads it. Raises `Unreachable` for a
        name that nobody has."""
        ...


class ToPrimary:
    """Requests to a broker's primary. Each raises `Unreachable`, with `sent` False where there is none, and the
    answer's own error."""

    __slots__ = ("_found", "_places", "broker")

    def __init__(self, found: Found, broker: str) -> None:
        self._found = found
        self._places = found.places
        self.broker = broker

    async def request(
        self,
        target: Target,
        *,
        params: Params | None = None,
        body: Body = b"",
        content_type: str = JSON,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = ANSWER_TIMEOUT_S,
    ) -> Answer:
        """One exchange. What may have been carried out is asked once: another replica is asked only if the first says
        that it doesn't lead, and all that within `timeout_s`."""

        def exchange(transport: Transport, left_s: float) -> Coroutine[Any, Any, Answer]:
            return transport.request(
                target, params=params, body=body, content_type=content_type, headers=headers, timeout_s=left_s
            )

        return await self._once(exchange, timeout_s, may_leave=False)

    async def get(self, target: Target, params: Params | None = None, timeout_s: float = ANSWER_TIMEOUT_S) -> Any:
        """A question answered with JSON. A broker with replicas is asked again while it changes its leader, and any
        that says that a quota lets it answer in time."""

        def exchange(transport: Transport, left_s: float) -> Coroutine[Any, Any, Answer]:
            return transport.request(target, params=params, timeout_s=left_s)

        return (await self._again(exchange, timeout_s, twice=True)).json()

    async def send(
        self,
        target: Target,
        content: object,
        params: Params | None = None,
        timeout_s: float = ANSWER_TIMEOUT_S,
        *,
        twice: bool = True,
    ) -> Any:
        """JSON answered with JSON, or with nothing: None. It is sent again while a broker with replicas changes its
        leader; `twice`: also when it may have been carried out, as that does no harm."""
        body = orjson.dumps(content)

        def exchange(transport: Transport, left_s: float) -> Coroutine[Any, Any, Answer]:
            return transport.request(target, params=params, body=body, timeout_s=left_s)

        answer = await self._again(exchange, timeout_s, twice)
        return answer.json() if answer.body else None

    async def _again(self, exchange: Exchange, timeout_s: float, twice: bool) -> Answer:
        end_s = math.inf
        quota_end_s = _now_s() + timeout_s
        while True:
            try:
                return await self._once(exchange, timeout_s, may_leave=twice)
            except OverQuota as error:
                await wait_for_quota(error, quota_end_s)
                continue
            except Unreachable as error:
                now_s = _now_s()
                end_s = min(end_s, now_s + SWITCH_S)
                if (error.sent and not twice) or now_s >= end_s or not self._places.has_replicas(self.broker):
                    raise
            await asyncio.sleep(PAUSE_S)

    async def _once(self, exchange: Exchange, timeout_s: float, may_leave: bool) -> Answer:
        """`may_leave`: an answer isn't waited for once the broker is led from elsewhere."""
        end_s = _now_s() + timeout_s
        failed = Unreachable(f"broker {self.broker!r} changes its primary", sent=False)
        for hop in range(HOPS_MAX + 1):
            address = (await self._found.find(self.broker)).address
            if not address:
                self._places.doubt(self.broker, address)
                raise Unreachable(f"broker {self.broker!r} has no primary now", sent=False)
            transport = self._found.connect(address)
            left_s = timeout_s if not hop else max(end_s - _now_s(), 0.001)
            try:
                if not may_leave:
                    return await exchange(transport, left_s)
                late_s = max(timeout_s - ANSWER_TIMEOUT_S, 0.0) + LATE_S
                return await _while_led(self._places, self.broker, address, late_s, exchange(transport, left_s))
            except NotLeader as error:
                failed = _no_primary(self.broker, error)
                if not self._places.goes_to(self.broker, address, error.leader):
                    break
            except TimeoutError:
                failed = Unreachable(f"broker {self.broker!r} is led from elsewhere than {address} now", sent=True)
            except Unreachable:
                self._places.doubt(self.broker, address)
                raise
        raise failed


class ToReader:
    """Questions that a follower answers too: to the primary, and to followers while it isn't there."""

    __slots__ = ("_found", "_places", "broker")

    def __init__(self, found: Found, broker: str) -> None:
        self._found = found
        self._places = found.places
        self.broker = broker

    async def request(
        self,
        target: Target,
        params: Params | None = None,
        headers: Mapping[str, str] | None = None,
        wait_s: float = 0.0,
    ) -> Answer:
        """One question, which the broker may hold for `wait_s`. Raises `Unreachable` when none of its replicas
        answers, and the answer's own error."""
        failed = Unreachable(f"broker {self.broker!r} has no primary now", sent=False)
        end_s = _now_s() + wait_s + ANSWER_TIMEOUT_S
        tried: set[str] = set()
        for _ in range(READS_MAX):
            found = await self._found.find(self.broker, settled=False)
            address = next((each for each in (found.address, *found.followers) if each and each not in tried), None)
            if address != found.address:
                self._places.doubt(self.broker, found.address)
            if address is None:
                break
            tried.add(address)
            transport = self._found.connect(address)
            question = transport.request(target, params=params, headers=headers, timeout_s=wait_s + ANSWER_TIMEOUT_S)
            try:
                return await _while_led(self._places, self.broker, found.address, wait_s + LATE_S, question)
            except TimeoutError:
                tried.clear()  # who leads now may be one that was tried before it did
            except OverQuota as error:  # of followers it would only be the next
                await wait_for_quota(error, end_s)
                tried.discard(address)
            except NotLeader as error:  # it is changing its role just now
                failed = _no_primary(self.broker, error)
                self._places.goes_to(self.broker, address, error.leader)
            except Unreachable as error:
                failed = error
                self._places.doubt(self.broker, address)
        raise failed


async def _while_led(
    places: Places, broker: str, address: str, late_s: float, answer: Coroutine[Any, Any, Answer]
) -> Answer:
    """The answer. Raises `TimeoutError` as soon as the broker isn't led from that address any more."""
    if not places.has_replicas(broker):
        return await answer
    async with asyncio.timeout(None) as limit:
        with places.under_way(broker, address, limit, late_s):
            return await answer


async def wait_for_quota(error: OverQuota, end_s: float) -> None:
    """Wait until the user may ask again; raises the error where that is after `end_s`, by the event loop's clock."""
    if _now_s() + error.retry_after_s >= end_s:
        raise error
    await asyncio.sleep(error.retry_after_s)


def _no_primary(broker: str, error: NotLeader) -> Unreachable:
    return Unreachable(f"broker {broker!r} has no primary now: {error.detail}", sent=False)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
