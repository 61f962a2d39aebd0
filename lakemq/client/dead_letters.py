"""A group's dead letters, for programs without asyncio."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Self

from lakemq.client.aio.dead_letters import DeadLetters as AsyncDeadLetters
from lakemq.client.dead_letter import DeadLetter, DeadLetterState
from lakemq.client.loop import background
from lakemq.client.results import RedriveStarted
from lakemq.client.route_source import RouteSource


class DeadLetters:
    """What a group has given up on: to look through, and to be sent to the group again. `brokers`, `nameservers`,
    `routes`, `token`: as a consumer's. Use it as a context manager, or `close` it."""

    def __init__(
        self,
        group: str,
        *,
        brokers: str | Sequence[str] | None = None,
        nameservers: str | Sequence[str] | None = None,
        routes: RouteSource | None = None,
        token: str | None = None,
    ) -> None:
        self._loop = background()
        self._letters = AsyncDeadLetters(group, brokers=brokers, nameservers=nameservers, routes=routes, token=token)

    @property
    def group(self) -> str:
        """Whose they are."""
        return self._letters.group

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def brokers(self) -> list[str]:
        """The brokers that have heard of the group. Raises `GroupNotFound` where none has, `Unreachable`."""
        return self._loop.run(self._letters.brokers())

    def letters(
        self,
        *,
        state: DeadLetterState | None = None,
        reason: str | None = None,
        topic: str | None = None,
        begin_ms: int | None = None,
        end_ms: int | None = None,
    ) -> Iterator[DeadLetter]:
        """The letters that are such, of one broker after the other, each newest first. `reason`: a part of the
        failure's class or text. `topic`: to which they were sent first. `begin_ms`, `end_ms`: when they died. Raises
        `GroupNotFound`, `Unreachable`."""
        found = self._letters.letters(state=state, reason=reason, topic=topic, begin_ms=begin_ms, end_ms=end_ms)
        try:
            while (letter := self._loop.run(anext(found, None))) is not None:  # pyright: ignore[reportArgumentType]
                yield letter
        finally:
            self._loop.run(found.aclose())

    def redrive(self, where: str, rate_per_s: float = 100, dry_run: bool = False) -> dict[str, RedriveStarted]:
        """Send those to the group again that fulfil the SQL predicate, at that rate at each broker; returns once that
        has begun, by broker. `dry_run`: only find them. Raises `GroupNotFound`, `InvalidFilter`, `Unreachable`."""
        return self._loop.run(self._letters.redrive(where, rate_per_s, dry_run))

    def progress(self, broker: str, redrive_id: str, offset: int = 0, count_max: int = 1_000) -> dict[str, Any]:
        """How far a redrive is at that broker: `state`, `matched`, `redriven`, `failed`, and from that number on the
        `results` for each letter."""
        return self._loop.run(self._letters.progress(broker, redrive_id, offset, count_max))

    def close(self) -> None:
        """Close the connections. A redrive goes on."""
        self._loop.run(self._letters.close())
