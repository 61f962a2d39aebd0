"""Asking the brokers that an `Admin` is for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self, TypeVar

from lakemq.client.broker_requests import ToPrimary
from lakemq.client.errors import Closed
from lakemq.client.routes import Cluster
from lakemq.model.errors import (
    ClientNotFound,
    GroupNotFound,
    InvalidRequest,
    LakemqError,
    MessageNotFound,
    TokenNotFound,
    TopicNotFound,
    UserNotFound,
)
from lakemq.model.ids import broker_of_id

Answer = TypeVar("Answer")
NOT_THERE: tuple[type[LakemqError], ...] = (
    TopicNotFound,
    GroupNotFound,
    ClientNotFound,
    UserNotFound,
    TokenNotFound,
)
"""One broker may lack what others have."""


class Brokers:
    """All brokers of a cluster, asked side by side."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def names(self, broker: str | None = None) -> list[str]:
        """Of all that are known, or of that one. Raises `InvalidRequest` for one that isn't known, `Unreachable`."""
        if self._closed:
            raise Closed("the admin is closed")
        names = sorted(each.name for each in await self.cluster.brokers(fresh=True))
        if broker is None:
            return names
        if broker not in names:
            raise InvalidRequest(f"there is no broker {broker!r}; there is {', '.join(names)}")
        return [broker]

    async def each(
        self,
        question: Callable[[ToPrimary], Awaitable[Answer]],
        broker: str | None = None,
        *not_there: type[LakemqError],
    ) -> dict[str, Answer]:
        """What each broker answers that has what is asked for. Raises `TopicNotFound` or `GroupNotFound` (or what else
        is `not_there`) when none has, and the first other error: with the broker's name, where there are several."""
        names = await self.names(broker)
        asked = [question(self.cluster.primary(name)) for name in names]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        found: dict[str, Answer] = {}
        missing: BaseException | None = None
        for name, answer in zip(names, answers, strict=True):
            if isinstance(answer, (*NOT_THERE, *not_there)):
                missing = answer
            elif isinstance(answer, BaseException):
                if isinstance(answer, LakemqError) and len(names) > 1:
                    answer.detail = f"{name}: {answer.detail}"
                    answer.args = (answer.detail,)
                raise answer
            else:
                found[name] = answer
        if missing is not None and not found:
            raise missing
        return found

    async def owner(self, text: str) -> ToPrimary:
        """The broker that an id names. Raises `MessageNotFound`."""
        name = broker_of_id(text)
        names = await self.names()
        if name not in names:
            if len(names) == 1:
                return self.cluster.primary(names[0])  # which says what is wrong with the id
            raise MessageNotFound(f"{text[:200]!r} is of none of the brokers {', '.join(names)}")
        return self.cluster.primary(name)

    async def close(self) -> None:
        """Close the connections."""
        self._closed = True
        await self.cluster.close()
