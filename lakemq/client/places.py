"""The addresses of brokers, as one client knows them, and their leaders, which the client looks for when they are in
doubt."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import contextmanager

from lakemq.client.errors import Closed, Unreachable
from lakemq.client.route_source import BrokerAddress
from lakemq.model.names import may_follow

logger = logging.getLogger("lakemq.client")

LOOK_PAUSE_S = 0.3
"""Between two looks for a broker's leader, however many ask for it."""
LOOK_AGAIN_S = 1.0
"""How soon it is looked again where nobody leads, or an answer is late."""

Look = Callable[[BrokerAddress], Awaitable[BrokerAddress]]
"""Asks where a broker is now that seems not to be led from where it was."""


class Places:
    """Brokers by their names. Lives on the client's event loop."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._brokers: dict[str, BrokerAddress] = {}
        self._looks: dict[str, asyncio.Task[None]] = {}
        self._looked_s: dict[str, float] = {}
        self._under_way: dict[str, set[asyncio.Timeout]] = {}
        self._closed = False

    def all(self) -> list[BrokerAddress]:
        """All that are known."""
        return list(self._brokers.values())

    def get(self, broker: str) -> BrokerAddress | None:
        """Where it is, as far as that is known."""
        return self._brokers.get(broker)

    async def settled(self, broker: str) -> BrokerAddress | None:
        """As `get`, once it isn't looked for."""
        look = self._looks.get(broker)
        if look is not None:
            await asyncio.wait([look])
        return self._brokers.get(broker)

    def has_replicas(self, broker: str) -> bool:
        """Whether the broker is known to have several."""
        known = self._brokers.get(broker)
        return known is not None and bool(known.followers)

    def put(self, brokers: Iterable[BrokerAddress], whole: bool = False) -> None:
        """They are there. `whole`: and no others."""
        given = {broker.name: broker for broker in brokers}
        before, self._brokers = self._brokers, given if whole else self._brokers | given
        if whole:
            self._looked_s = {name: each for name, each in self._looked_s.items() if name in given}
        for name, broker in given.items():
            if name in before and before[name].address != broker.address:
                self._leave(name)

    def doubt(self, broker: str, address: str) -> None:
        """It doesn't seem to be led from that address, which is believed: look who leads."""
        known = self._brokers.get(broker)
        if self._closed or known is None or known.address != address or broker in self._looks:
            return
        if _now_s() - self._looked_s.get(broker, float("-inf")) < LOOK_PAUSE_S:
            return
        look = self._looks[broker] = asyncio.ensure_future(self._find(known))
        look.add_done_callback(lambda _: self._end_look(broker))

    def goes_to(self, broker: str, address: str, leader: str) -> bool:
        """An answer from `address` says that the broker is led from `leader`. Whether it is worth asking there, or
        where else it is known to be by now; otherwise it is looked who leads."""
        known = self._brokers.get(broker)
        if known is not None and known.address != address:
            return bool(known.address)
        if known is None or not may_follow(address, leader):
            self.doubt(broker, address)
            return False
        followers = dict.fromkeys((*known.followers, address))
        self.put([known._replace(address=leader, followers=tuple(each for each in followers if each != leader))])
        logger.info("the leader of broker %s is now at %s", broker, leader)
        return True

    @contextmanager
    def under_way(self, broker: str, address: str, limit: asyncio.Timeout, late_s: float) -> Generator[None]:
        """An answer is waited for, as the broker is led from that address: no longer, `limit`, than until it is led
        from another one. After `late_s` without it, it is looked who leads."""
        limits = self._under_way.setdefault(broker, set())
        limits.add(limit)
        late = _Every(late_s, lambda: self.doubt(broker, address))
        try:
            yield
        finally:
            late.cancel()
            limits.discard(limit)
            if not limits and self._under_way.get(broker) is limits:
                del self._under_way[broker]

    async def close(self) -> None:
        """Stop looking."""
        self._closed = True
        looks = list(self._looks.values())
        for look in looks:
            look.cancel()
        await asyncio.gather(*looks, return_exceptions=True)

    def _leave(self, broker: str) -> None:
        """It is led from elsewhere: what is waited for at the old address is to be asked at the new one."""
        now_s = _now_s()
        for limit in self._under_way.pop(broker, set()):
            limit.reschedule(now_s)

    async def _find(self, before: BrokerAddress) -> None:
        try:
            found = await self._look(before)
        except (Unreachable, Closed) as error:
            logger.debug("can't look up the leader of broker %s now: %s", before.name, error)
            return
        known = self._brokers.get(before.name)
        if known is not None and known.address == before.address:  # else somebody has learned it meanwhile
            self.put([found])
            if found.address != before.address:
                logger.info("the leader of broker %s is now at %s", before.name, found.address or "nowhere")

    def _end_look(self, broker: str) -> None:
        look = self._looks.pop(broker)
        self._looked_s[broker] = _now_s()
        if look.cancelled():
            return
        if (error := look.exception()) is not None:
            logger.error("the search for the leader of broker %s ended: %r", broker, error)
        known = self._brokers.get(broker)
        if known is not None and not known.address and self._under_way.get(broker):
            asyncio.get_running_loop().call_later(LOOK_AGAIN_S, self.doubt, broker, known.address)


class _Every:
    """Calls a function after a while, and then again and again."""

    __slots__ = ("_call", "_timer")

    def __init__(self, first_s: float, call: Callable[[], object]) -> None:
        self._call = call
        self._timer = asyncio.get_running_loop().call_later(first_s, self._run)

    def _run(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(LOOK_AGAIN_S, self._run)
        self._call()

    def cancel(self) -> None:
        """Stop calling it."""
        self._timer.cancel()


def _now_s() -> float:
    return asyncio.get_running_loop().time()
