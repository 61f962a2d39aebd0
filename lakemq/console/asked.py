"""Brokers, as one user asks them: by that user's token, so what is allowed, and what is audited, is the brokers'."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from lakemq.client.sql_request import check_sql_address
from lakemq.client.transport import Answer, Transport
from lakemq.contract import client_routes, routes
from lakemq.contract.route import Target
from lakemq.contract.sql_routes import CATALOG, OWN_ACCESS, STATEMENT
from lakemq.model.access import Action, Decision, Kind, Need, Resource, User, need_of_topic, parse_policy, parse_user
from lakemq.model.errors import Forbidden, InvalidRequest, NotLeader
from lakemq.model.names import may_follow
from lakemq.wire.credentials import Credentials

ANSWER_S = 10.0
"""A broker that doesn't answer within that is told on the page."""
CHANGE_S = 30.0
CONNECTIONS_MAX = 32
KNOWN_S = 15.0
"""So long what a user may do isn't asked again: the broker looks each time in any case."""

Params = Mapping[str, str | int]


class Who(NamedTuple):
    """Whom a broker takes this user for. `user` None: it is asked without a token, and says no to nobody known.
    `token_required`: it asks everyone for a token."""

    user: User | None
    token_required: bool = True

    def may(self, action: Action, resource: Resource) -> bool:
        """Whether a page offers it."""
        return self.user is None or self.user.may(Need((action,), resource), None)

    def might(self, action: Action, resource: Resource) -> bool:
        """Whether the broker may allow it: policies with `sources` are for the broker to decide."""
        return self.may(action, resource) or (
            self.user is not None and any(each.sources for each in self.user.policies)
        )

    @property
    def may_see_cluster(self) -> bool:
        """Whether the broker may tell this user its metrics, its jobs and when what waits is due."""
        cluster = Resource(Kind.CLUSTER)
        return self.might(Action.LIST, cluster) or self.might(Action.GET, cluster)

    def may_some(self, action: Action, kind: Kind) -> bool:
        """Whether a policy allows it on any resource of that kind."""
        return self.may(action, Resource(kind)) or any(
            each.decision is Decision.ALLOW and action in each.actions and each.pattern[0] == kind
            for each in (() if self.user is None else self.user.policies)
        )

    def named(self, actions: Sequence[Action], kind: Kind) -> tuple[list[str], list[str]]:
        """The names, and the beginnings of names, of that kind that this user's policies spell out for one of the
        actions. Names that another policy denies are left out."""
        names: set[str] = set()
        beginnings: set[str] = set()
        for policy in () if self.user is None else self.user.policies:
            called, name, is_prefix = policy.pattern
            if called != kind or policy.decision is not Decision.ALLOW or policy.actions.isdisjoint(actions):
                continue
            if is_prefix:
                beginnings.add(name)
            elif any(self.might(each, Resource(kind, name)) for each in actions):
                names.add(name)
        return sorted(names), sorted(beginnings - {""})

    def may_on_topic(self, action: Action, topic: str) -> bool:
        """So of a topic, whose retries and dead letters are its group's."""
        return self.user is None or self.user.may(need_of_topic((action,), topic), None)

    def might_see_topic(self, topic: str) -> bool:
        """Whether the broker may show the topic: policies with `sources` are for the broker to decide."""
        need = need_of_topic((Action.GET, Action.SUB, Action.PUB), topic)
        return self.user is None or self.user.may(need, None) or any(each.sources for each in self.user.policies)

    def may_on_group(self, action: Action, group: str) -> bool:
        """So of a group."""
        return self.may(action, Resource(Kind.GROUP, group))


class Broker:
    """One broker. Every method raises `LakemqError`: the broker's own refusal, or `Unreachable`."""

    def __init__(self, address: str, credentials: Credentials) -> None:
        self.address = address
        self._credentials = credentials
        self._transport = Transport(address, CONNECTIONS_MAX, credentials)
        self._leader: Transport | None = None
        self._jobs: Transport | None = None
        self._who: tuple[float, Who] | None = None

    async def who(self, anew: bool = False) -> Who:
        """Whom it takes this user for."""
        now_s = time.monotonic()
        if self._who is None or anew or now_s - self._who[0] > KNOWN_S:
            self._who = now_s, _who(await self.get(OWN_ACCESS.at()))
        return self._who[1]

    async def get(self, target: Target, params: Params | None = None, timeout_s: float = ANSWER_S) -> Any:
        """Its answer, which is JSON."""
        return (await self.ask(target, params, timeout_s=timeout_s)).json()

    async def text(self, target: Target) -> str:
        """Its answer, as text."""
        return (await self.ask(target)).body.decode(errors="replace")

    async def ask(
        self,
        target: Target,
        params: Params | None = None,
        body: bytes = b"",
        content_type: str = "application/json",
        timeout_s: float = ANSWER_S,
    ) -> Answer:
        """What a follower doesn't do its leader is asked for, once."""
        try:
            return await self._transport.request(
                target, params=params, body=body, content_type=content_type, timeout_s=timeout_s
            )
        except NotLeader as error:
            if not may_follow(self.address, error.leader):
                raise
            return await (await self._at(error.leader)).request(
                target, params=params, body=body, content_type=content_type, timeout_s=timeout_s
            )

    async def _at(self, leader: str) -> Transport:
        if self._leader is None or self._leader.address != leader:
            before, self._leader = self._leader, Transport(leader, CONNECTIONS_MAX, self._credentials)
            if before is not None:
                await before.close()
        return self._leader

    async def of_jobs(self, target: Target, timeout_s: float = ANSWER_S) -> Any:
        """What the jobs answer that say to this broker where they are. Raises `Unreachable` where there are none."""
        return (await (await self._at_jobs()).request(target, timeout_s=timeout_s)).json()

    async def close(self) -> None:
        """Close its connections, for good."""
        for each in (self._transport, self._leader, self._jobs):
            if each is not None:
                await each.close()

    async def sql_tables(self) -> dict[str, Any]:
        """The tables that this user may ask for in SQL, and the bounds. Raises `Unreachable` where no jobs answer."""
        return await self.of_jobs(CATALOG.at(), CHANGE_S)

    async def sql(self, content: bytes, timeout_s: float) -> Answer:
        """What the jobs answer to a statement of this user. They end it where this is cancelled."""
        return await (await self._at_jobs()).request(STATEMENT.at(), body=content, timeout_s=timeout_s)

    async def sql_of_page(self, content: bytes, timeout_s: float) -> Answer:
        """So for a statement of the console's own. Raises `Forbidden` without asking where no policy allows SQL: the
        jobs would warn of each page that such a user opens."""
        if not (await self.who()).may_some(Action.SQL, Kind.LAKE):
            raise Forbidden("you may not use SQL: it takes Sql on Lake:*, or on each table")
        return await self.sql(content, timeout_s)

    async def _at_jobs(self) -> Transport:
        address = await asyncio.to_thread(check_sql_address, self.address, await self.describe())
        if self._jobs is None or self._jobs.address != address:
            before, self._jobs = self._jobs, Transport(address, CONNECTIONS_MAX, self._credentials)
            if before is not None:
                await before.close()
        return self._jobs

    async def describe(self) -> dict[str, Any]:
        """Its name, role and positions."""
        return await self.get(routes.BROKER.at())

    async def topic(
        self, topic: str, times: int = 0, timeout_s: float = ANSWER_S, *, times_from: int = 0
    ) -> dict[str, Any]:
        """One topic and its queues; since when they have messages, of so many of them, from that one on."""
        params = {"times": times} | ({"times_from": times_from} if times_from else {}) if times else None
        return await self.get(routes.TOPIC.at(topic), params, timeout_s)

    async def pull(self, topic: str, queue_id: int, offset: int, most: int, wait_ms: int = 0) -> dict[str, Any]:
        """What a queue has from an offset on."""
        params = {"offset": offset, "max": most, "wait_ms": wait_ms}
        return await self.get(routes.PULL.at(topic, queue_id), params, ANSWER_S + wait_ms / 1000)

    async def offset_at(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        """The first that was stored then, or after."""
        answer = await self.get(routes.OFFSET_BY_TIME.at(topic, queue_id), {"timestamp_ms": timestamp_ms})
        return int(answer["offset"])

    async def clients(self, group: str) -> list[dict[str, Any]]:
        """The members of a group, and how they are."""
        return (await self.get(client_routes.GROUP_CLIENTS.at(group)))["clients"]


class Asked:
    """All brokers that a console knows, as one user asks them."""

    def __init__(self, addresses: tuple[str, ...], credentials: Credentials) -> None:
        self.brokers = {address: Broker(address, credentials) for address in addresses}

    async def close(self) -> None:
        """Close all connections, for good."""
        await asyncio.gather(*(each.close() for each in self.brokers.values()))


def _who(answer: Mapping[str, Any]) -> Who:
    """Raises `InvalidRequest` where that is no broker's answer."""
    try:
        required = bool(answer.get("token_required", True))  # an earlier version doesn't say
        if answer["user"] is None:
            return Who(None, required)
        # A name such as admin.token is no user's, and the administrator's all the same.
        user = parse_user(
            "user", {"type": answer["type"], "status": answer["status"]}, map(parse_policy, answer["policies"])
        )
        return Who(User(str(answer["user"]), user.type, user.status, user.policies), required)
    except (KeyError, TypeError):
        raise InvalidRequest("that isn't an answer of a lakemq broker") from None
