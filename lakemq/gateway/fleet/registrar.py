"""Keeps the broker known to the name servers: a heartbeat every 30 s, one at once when a topic changes, a goodbye."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from lakemq.contract import nameserver_routes
from lakemq.contract.forms import JSON
from lakemq.contract.route import Target
from lakemq.gateway.fleet.asking_thread import AskingThread
from lakemq.gateway.fleet.registration import heartbeat
from lakemq.gateway.http import in_slices
from lakemq.model.errors import LakemqError, StoreUnwritable
from lakemq.model.trust import Trust
from lakemq.settings import Settings
from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.state.topics import TOPICS_TOPIC
from lakemq.wire.connections import Connections, NoAnswer
from lakemq.wire.credentials import NOBODY, Credentials
from lakemq.wire.registering import RegisteringToken, tokens_for

logger = logging.getLogger(__name__)

SETTING = "fleet.nameserver_token_file"
HEARTBEAT_S = 30.0
LOOK_S = 1.0
"""So often it looks whether a name server has closed the connection."""
SETTLE_S = 0.1
"""A change is told so much later: topics that are made one after the other are told together."""
RETRY_S, RETRY_S_MAX = 0.5, 15.0
ASK_S = 3.0
GOODBYE_S = 1.0


class Registrar:
    """Of one broker. Each name server is told by itself, so that one which is down delays no other."""

    def __init__(self, settings: Settings, log: CommitLog, role: str) -> None:
        self._role = role
        self._broker = settings.broker
        self._advertise = settings.gateway.advertise
        self._log = log
        trust = settings.tls.trust
        self._servers = [_NameServer(each, _credentials(settings), trust) for each in settings.fleet.nameservers]
        self._path = nameserver_routes.HEAR.at(settings.broker.name, settings.broker.replica)
        self._goodbye = nameserver_routes.LEAVE.at(settings.broker.name, settings.broker.replica)
        self._tasks: list[asyncio.Task[None]] = []
        self._leaving: asyncio.Task[None] | None = None
        self._address = ""

    def start(self, address: str) -> None:
        """Register, and stay so. `address`: where the gateway listens."""
        self._address = self._advertise or address
        self._tasks = [asyncio.ensure_future(self._keep(each)) for each in self._servers]

    async def end(self) -> None:
        """Say no more, and no goodbye: another one goes on in its place."""
        self._leaving = self._leaving or asyncio.ensure_future(self._leave(goodbye=False))
        await self._leaving

    def leave(self) -> None:
        """Begin to say goodbye to all: clients hear of it at once. One that doesn't answer forgets the broker."""
        if self._leaving is None:
            self._leaving = asyncio.ensure_future(self._leave())

    async def close(self) -> None:
        """Wait until it has left."""
        self.leave()
        assert self._leaving is not None
        await self._leaving

    async def _leave(self, goodbye: bool = True) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if tasks and goodbye:
            await asyncio.gather(*(each.ask(self._goodbye, None, GOODBYE_S) for each in self._servers))
        for each in self._servers:
            each.close()

    def degraded(self) -> list[str]:
        """The name servers that can't be told, a line each."""
        return [
            f"not registered with the name server {each.address}: {each.problem}"
            for each in self._servers
            if each.problem
        ]

    async def _keep(self, server: _NameServer) -> None:
        pause_s = RETRY_S
        while True:
            changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            waiters = self._log.topics.queue(TOPICS_TOPIC, 0).waiters
            waiters.add(changed)
            try:
                if await self._register(server):
                    pause_s = RETRY_S
                    await self._next(server, changed)
                else:
                    await asyncio.sleep(pause_s)
                    pause_s = min(2 * pause_s, RETRY_S_MAX)
            finally:
                waiters.discard(changed)

    async def _next(self, server: _NameServer, changed: asyncio.Future[None]) -> None:
        """Return when the next heartbeat is due."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + HEARTBEAT_S
        while not changed.done() and (left_s := end_s - loop.time()) > 0:
            await asyncio.wait([changed], timeout=min(left_s, LOOK_S))
            if server.has_ended():
                return
        await asyncio.sleep(SETTLE_S)

    async def _register(self, server: _NameServer) -> bool:
        topics = list(self._log.topics)
        body = await in_slices.write(heartbeat(self._broker, self._role, self._address, self._log.identity, topics))
        before, server.problem = server.problem, await self._tell(server, body)
        if server.problem and server.problem != before:
            logger.warning("not registered with the name server %s: %s", server.address, server.problem)
        elif before and not server.problem:
            logger.info("registered with the name server %s again", server.address)
        return not server.problem

    async def _tell(self, server: _NameServer, body: bytes) -> str:
        """Say it once no later leader says otherwise of topics; while that isn't known, what was said before. What came
        in the way; empty: nothing did."""
        try:
            if (waits := self._log.until_topics_shown()) is not None:
                await self._until_known(server, waits)
        except StoreUnwritable as error:
            if server.said is None:
                return f"which topics there are isn't confirmed: {error.detail}"
        else:
            server.said = body
        return await server.ask(self._path, server.said, ASK_S)

    async def _until_known(self, server: _NameServer, waits: asyncio.Future[None]) -> None:
        """Wait for it, and say meanwhile what was said before: this broker lives. Raises `StoreUnwritable`."""
        loop = asyncio.get_running_loop()
        next_s = loop.time() + HEARTBEAT_S
        try:
            while not waits.done():
                await asyncio.wait([waits], timeout=LOOK_S)
                if server.said is not None and (server.has_ended() or loop.time() >= next_s):
                    server.problem = await server.ask(self._path, server.said, ASK_S)
                    next_s = loop.time() + HEARTBEAT_S
            waits.result()
        finally:
            waits.cancel()


def check_token_file(settings: Settings) -> None:
    """Raise `SettingsError` where the file of tokens for name servers has none."""
    if settings.fleet.nameserver_token_file is not None:
        tokens_for(settings.broker.name, settings.fleet.nameserver_token_file, SETTING)


def _credentials(settings: Settings) -> Credentials:
    file = settings.fleet.nameserver_token_file
    return NOBODY if file is None else RegisteringToken(file, SETTING, settings.broker.name)


class _NameServer:
    """One of them. What it is told it is told in order: a thread that waits for it belongs to it alone. It is shown the
    token of that file, and none of the environment: that one is for brokers."""

    def __init__(self, address: str, credentials: Credentials, trust: Trust) -> None:
        self.address = address
        self.problem = ""
        self.said: bytes | None = None
        """The last that was confirmed as it was said."""
        self._connections = Connections(address, credentials, trust)
        self._thread = AskingThread("registrar")

    def has_ended(self) -> bool:
        """Whether it has closed the connection. One that was started again knows nobody: it is told at once."""
        return self._connections.has_ended()

    async def ask(self, target: Target, body: bytes | None, timeout_s: float) -> str:
        """What came in the way; empty: nothing did."""
        try:
            return await self._thread.ask(partial(self._ask, target, body, timeout_s))
        except (RuntimeError, MemoryError) as error:  # there is no thread for it, now
            return repr(error)

    def _ask(self, target: Target, body: bytes | None, timeout_s: float) -> str:
        headers = {} if body is None else {"Content-Type": JSON}
        try:
            answer = self._connections.ask(target, body=body, headers=headers, timeout_s=timeout_s)
        except NoAnswer as error:
            return str(error)
        except LakemqError as error:
            return error.detail
        refusal = answer.error("it")
        return "" if refusal is None else refusal.detail

    def close(self) -> None:
        """Let it go, without waiting for an answer that is under way."""
        self._thread.close(self._connections.close)
