"""A group's dead letters, at all brokers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from lakemq.client.dead_letter import DeadLetter, DeadLetterPage, DeadLetterState, asked
from lakemq.client.outgoing import check_group
from lakemq.client.results import RedriveStarted
from lakemq.client.route_source import RouteSource
from lakemq.client.routes import Cluster
from lakemq.contract import dead_letter_routes, routes
from lakemq.contract.route import Target
from lakemq.model.errors import GroupNotFound

PAGE = 200


class DeadLetters:
    """What a group has given up on: to look through, and to be sent to the group again. `brokers`, `nameservers`,
    `routes`, `token`: as a consumer's. Use it as an async context manager, or `close` it."""

    def __init__(
        self,
        group: str,
        *,
        brokers: str | Sequence[str] | None = None,
        nameservers: str | Sequence[str] | None = None,
        routes: RouteSource | None = None,
        token: str | None = None,
    ) -> None:
        self._group = check_group(group)
        self._cluster = Cluster(brokers, routes, nameservers, token)

    @property
    def group(self) -> str:
        """Whose they are."""
        return self._group

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def brokers(self) -> list[str]:
        """The brokers that have heard of the group. Raises `GroupNotFound` where none has, `Unreachable`."""
        names = [broker.name for broker in await self._cluster.brokers()]
        found = {name: await self._asked_of(name, {"max": 1}) for name in names}
        known = [name for name, page in found.items() if page is not None]
        if not known:
            raise GroupNotFound(f"there is no group {self._group!r}")
        return known

    async def letters(
        self,
        *,
        state: DeadLetterState | None = None,
        reason: str | None = None,
        topic: str | None = None,
        begin_ms: int | None = None,
        end_ms: int | None = None,
    ) -> AsyncGenerator[DeadLetter]:
        """The letters that are such, of one broker after the other, each newest first. `reason`: a part of the
        failure's class or text. `topic`: to which they were sent first. `begin_ms`, `end_ms`: when they died. Raises
        `GroupNotFound`, `Unreachable`."""
        for broker in await self.brokers():
            after: int | None = None
            while True:
                page = await self._asked_of(broker, asked(state, reason, topic, begin_ms, end_ms, after, PAGE))
                for letter in [] if page is None else page.letters:
                    yield letter
                if page is None or page.next_after is None:
                    break
                after = page.next_after

    async def redrive(self, where: str, rate_per_s: float = 100, dry_run: bool = False) -> dict[str, RedriveStarted]:
        """Send those to the group again that fulfil the SQL predicate, at that rate at each broker; returns once that
        has begun, by broker. `dry_run`: only find them. Raises `GroupNotFound`, `InvalidFilter`, `Unreachable`."""
        content = {"where": where, "rate_per_s": rate_per_s, "dry_run": dry_run}
        begun: dict[str, RedriveStarted] = {}
        for broker in await self.brokers():
            # A redrive that was begun, and whose answer was lost, redrives each letter once all the same.
            answer = await self._cluster.primary(broker).send(routes.REDRIVE.at(self._group), content)
            begun[broker] = RedriveStarted(answer["redrive_id"], answer["matched"])
        return begun

    async def progress(self, broker: str, redrive_id: str, offset: int = 0, count_max: int = 1_000) -> dict[str, Any]:
        """How far a redrive is at that broker: `state`, `matched`, `redriven`, `failed`, and from that number on the
        `results` for each letter."""
        return await self._get(broker, routes.REDRIVEN.at(redrive_id), {"offset": offset, "max": count_max})

    async def close(self) -> None:
        """Close the connections. A redrive goes on."""
        await self._cluster.close()

    async def _asked_of(self, broker: str, params: Mapping[str, str | int]) -> DeadLetterPage | None:
        """None: the broker has not heard of the group."""
        try:
            return DeadLetterPage.of(await self._get(broker, dead_letter_routes.DEAD_LETTERS.at(self._group), params))
        except GroupNotFound:
            return None

    async def _get(self, broker: str, target: Target, params: Mapping[str, str | int]) -> Any:
        return await self._cluster.primary(broker).get(target, dict(params))
