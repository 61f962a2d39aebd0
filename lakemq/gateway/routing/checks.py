"""Checks on their way to the clients of a producer group, by long poll."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import Any

from lakemq.gateway.effects.executor import Executor
from lakemq.gateway.routing.check_offers import CheckOffers, May
from lakemq.gateway.work.waiters import Wait
from lakemq.storage.disk.clock import Clock
from lakemq.storage.segment.frame_rows import FrameRows
from lakemq.storage.segment.slice import Slice
from lakemq.storage.slices.messages import to_dicts
from lakemq.storage.state.message_ids import MessageIds
from lakemq.storage.state.open_halves import OpenHalf
from lakemq.storage.state.secret_ids import SecretIds
from lakemq.web.asgi import Client
from lakemq.web.gone import finish

CHECKS_MAX = 32
"""So many checks are handed out in one answer."""


class Checks:
    """The checks that wait for an answer, by producer group. A check is handed to one client; when
    no answer comes within `check_answer_ms`, to the next that asks."""

    def __init__(self, executor: Executor, secret_ids: SecretIds, clock: Clock, answer_ms: int, wait: Wait) -> None:
        self._executor = executor
        self._secret_ids = secret_ids
        self._clock = clock
        self._answer_ms = answer_ms
        self._wait = wait
        self._groups: dict[str, CheckOffers] = {}
        self._waiters: dict[str, set[asyncio.Future[None]]] = {}

    def start(self) -> None:
        """Take up the checks that the log has."""
        self._executor.state.on_check = self._add
        for half in self._executor.state.transactions.checked():
            self._add(half)

    def _add(self, half: OpenHalf) -> None:
        self._groups.setdefault(half.group, CheckOffers()).add(half.origin)
        self._tidy(half.group)
        self._wake(half.group)

    def _tidy(self, group: str) -> None:
        """That group's turn, and that of the one which had none for longest: groups that never ask come and go, too."""
        for name in (group, next(iter(self._groups))):
            if (offers := self._groups.pop(name, None)) is not None:
                offers.tidy(self._executor.state.transactions.find)
                if offers:
                    self._groups[name] = offers

    def _wake(self, group: str) -> None:
        for waiter in self._waiters.pop(group, ()):
            finish(waiter)

    async def poll(
        self, group: str, wait_ms: int, gone: asyncio.Future[Any], may: May, client: Client
    ) -> list[dict[str, Any]]:
        """The checks of the group for one client; waits up to `wait_ms` for the first. A client that is
        `gone` is given none, and nobody those of topics to which it may not produce: they are left to others."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_ms / 1000
        stopping, may = False, cache(may)
        while True:
            halves, next_ms = ([], None) if gone.done() else self._take(group, may)
            if halves:
                read, outlived = await self._describe(halves)
                self._withdraw(group, outlived)
                found = self._keep(group, halves, read, may)
                if found or not (read or outlived):
                    return found
                continue  # they are others', which is known of each of them now, or nobody's
            left = deadline - loop.time()
            if left <= 0 or stopping or gone.done():
                return []
            if next_ms is not None:
                left = min(left, max(next_ms - self._clock.now_ms(), 1) / 1000)
            waiter: asyncio.Future[None] = loop.create_future()
            self._waiters.setdefault(group, set()).add(waiter)
            try:
                stopping = not await self._wait(waiter, left, gone, client)
            finally:
                waiters = self._waiters.get(group)
                if waiters is not None:
                    waiters.discard(waiter)
                    if not waiters:
                        del self._waiters[group]

    def _take(self, group: str, may: May) -> tuple[list[OpenHalf], int | None]:
        """The checks that may be handed out now, as far as their topics are known, and when the next one may be."""
        offers = self._groups.get(group)
        if offers is None:
            return [], None
        now = self._clock.now_ms()
        taken = offers.take(self._executor.state.transactions.find, may, now, now + self._answer_ms, CHECKS_MAX)
        if not offers:
            del self._groups[group]
        return taken, offers.next_ms()

    def _keep(
        self, group: str, halves: list[OpenHalf], read: dict[int, dict[str, Any]], may: May
    ) -> list[dict[str, Any]]:
        """Those for who asks. Of each it is known from now on whose it is, and the others are offered again."""
        offers, is_left = self._groups.get(group), False
        kept: list[dict[str, Any]] = []
        for half in halves:
            if (check := read.get(half.cause)) is None:
                continue
            topic: str = check["message"]["topic"]
            if may(topic):
                kept.append(check)
            else:
                is_left = True
            if offers is not None:
                offers.learn(half, topic, is_kept=may(topic))
        if is_left:
            self._wake(group)
        return kept

    def _withdraw(self, group: str, halves: list[OpenHalf]) -> None:
        """Offer these to nobody: else they would be read for each poll, before others."""
        if (offers := self._groups.get(group)) is None:
            return
        for half in halves:
            offers.withdraw(half)
        if not offers:
            del self._groups[group]

    async def _describe(self, halves: list[OpenHalf]) -> tuple[dict[int, dict[str, Any]], list[OpenHalf]]:
        """The checks of those halves that can be read, by where they stand; and the halves whose topic was deleted."""
        by_cause = {half.cause: half for half in halves}
        checks: dict[int, dict[str, Any]] = {}
        outlived: list[OpenHalf] = []
        async for part in self._executor.read_all(by_cause):
            for number in part.numbers:
                half = by_cause[part.frame.meta.first_position + number]
                if self._executor.log.topics.find_for(part.value("real_topic", number), half.origin) is None:
                    outlived.append(half)  # its topic's name may be another's by now
                    continue
                transaction_id = self._secret_ids.of(half.origin)
                message = _describe(part, number, self._executor.ids)
                message |= {"message_id": self._executor.message_id(half.origin), "topic": message["real_topic"]}
                message["transaction_id"] = transaction_id
                message.pop("deliver_at_ms", None)  # when it is checked again is the broker's matter
                check = {"transaction_id": transaction_id, "check_times": half.check_times, "message": message}
                checks[half.cause] = check
        return checks, outlived


def _describe(part: FrameRows, number: int, ids: MessageIds) -> dict[str, Any]:
    (message,) = to_dicts(Slice(part.frame, part.run_of(number), number, 1), ids)
    return message
