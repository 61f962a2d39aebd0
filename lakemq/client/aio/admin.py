"""`Admin` for programs with asyncio."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self, TypedDict, Unpack

from lakemq.client.durations import Seconds, to_seconds
from lakemq.client.frame import Frame
from lakemq.client.manage.ask import Brokers
from lakemq.client.manage.groups import Groups
from lakemq.client.manage.messages import Messages
from lakemq.client.manage.redrives import Redrives
from lakemq.client.manage.schemas import Schemas
from lakemq.client.manage.statements import run_statement
from lakemq.client.manage.topics import Topics
from lakemq.client.manage.users import Users
from lakemq.client.manage.waiting import Waiting
from lakemq.client.route_source import RouteSource
from lakemq.client.routes import Cluster


class AdminOptions(TypedDict, total=False):
    """Options of an `Admin` and of the functions for frames, with asyncio and without."""

    brokers: str | Sequence[str] | None
    """Addresses of brokers. Without these and `nameservers`: the environment's LAKEMQ_NAMESERVERS, else its
    LAKEMQ_BROKER, else port 8080 of this machine."""
    nameservers: str | Sequence[str] | None
    """Addresses of name servers, which know the brokers, instead of `brokers`."""
    routes: RouteSource | None
    """A source of routes instead of addresses."""
    token: str | None
    """Identifies the client's user. By default it is the environment's LAKEMQ_TOKEN, or in the file that
    LAKEMQ_TOKEN_FILE names, else the token of this machine's administrator, if it can be found."""


class Admin(Topics, Schemas, Groups, Messages, Waiting, Redrives, Users):
    """Manages topics, groups, messages, dead letters and users, at all brokers together.

    It lives on the event loop of its first call. Options: `AdminOptions`. Use it as an async context manager, or
    `close` it. Every method raises `Unreachable`, `Unauthenticated` and `Forbidden`. If an answer was lost
    (`Unreachable.sent`), check whether the request was carried out. If several brokers are asked, some may have carried
    it out.
    """

    def __init__(self, **options: Unpack[AdminOptions]) -> None:
        self._brokers = brokers_of(options)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def sql(self, statement: str, *, rows_max: int | None = None, timeout_s: Seconds | None = None) -> Frame:
        """The rows of one statement that only reads, as far as you may see them, from the jobs that the brokers know.
        Default limits come from the settings of these jobs. Raises `InvalidSql`, and `Unreachable` if no jobs answer.
        """
        timeout_ms = None if timeout_s is None else int(to_seconds(timeout_s, "timeout_s") * 1000)
        await self._brokers.names()
        rows = await run_statement(self._brokers.cluster, statement, rows_max, timeout_ms)
        return Frame(rows.table, rows.truncated)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]

    async def close(self) -> None:
        """Close the connections."""
        await self._brokers.close()


def brokers_of(options: AdminOptions) -> Brokers:
    """The brokers that the options name. Raises `TypeError` for an unknown option, `InvalidRequest`."""
    unknown = set(options) - set(AdminOptions.__annotations__)
    if unknown:
        raise TypeError(f"there is no option {min(unknown)!r}")
    return Brokers(
        Cluster(options.get("brokers"), options.get("routes"), options.get("nameservers"), options.get("token"))
    )
