"""What answers each route of a name server."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

import orjson
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from lakemq.contract import nameserver_routes as routes
from lakemq.contract.route import Route
from lakemq.model.errors import MessageTooLarge
from lakemq.model.names import check_readable
from lakemq.nameserver.heartbeat import parse_key
from lakemq.nameserver.levels_handler import LevelsHandler
from lakemq.nameserver.metrics import NameServerCollector
from lakemq.nameserver.name_server import NameServer
from lakemq.nameserver.registration import ShownReplica
from lakemq.nameserver.registry import EVERYTHING, Heard, Key
from lakemq.web.asgi import client_of, parse_int, read_body, send_answer
from lakemq.web.gone import client_gone
from lakemq.web.problems import Answer, identified, json_answer, make_problem
from lakemq.web.request import Handler, HttpRequest

DESCRIBED_AT_ONCE = 500
"""Replicas, before others go on."""


def make_handlers(name_server: NameServer) -> Mapping[Route, Handler]:
    """The handler of each route."""
    registering, asking, levels = _Registering(name_server), _Asking(name_server), LevelsHandler()
    return {
        routes.HEAR: registering.hear,
        routes.LEAVE: registering.leave,
        routes.ROUTES: asking.routes,
        routes.CLUSTER: asking.cluster,
        routes.LOG_LEVELS: levels.show,
        routes.PUT_LOG_LEVELS: levels.put,
        routes.HEALTH: _health,
        routes.READY: asking.ready,
        routes.METRICS: asking.metrics,
    }


async def _health(request: HttpRequest) -> None:
    await send_answer(request.send, json_answer(b'{"status":"up"}'))


class _Registering:
    """What brokers ask for."""

    def __init__(self, name_server: NameServer) -> None:
        self._name_server = name_server
        self._heard = json_answer(orjson.dumps({"expires_ms": name_server.limits.expiry_ms}))

    async def hear(self, request: HttpRequest) -> None:
        key = parse_key(*request.values)
        try:
            body = await read_body(request.receive, self._name_server.limits.request_bytes_max)
        except MessageTooLarge:
            self._name_server.hear_of(key)
            raise
        gone = partial(client_gone, request.scope)
        await self._name_server.hear(key, body, client_of(request.scope), gone)
        await send_answer(request.send, self._heard)

    async def leave(self, request: HttpRequest) -> None:
        self._name_server.leave(parse_key(*request.values))
        await send_answer(request.send, json_answer(b"{}"))


class _Asking:
    """What clients and operators ask for."""

    def __init__(self, name_server: NameServer) -> None:
        self._name_server = name_server
        self._metrics = CollectorRegistry()
        self._metrics.register(NameServerCollector(name_server))

    async def routes(self, request: HttpRequest) -> None:
        name_server, query = self._name_server, request.query
        topic = check_readable(query["topic"]) if "topic" in query else EVERYTHING
        wait_ms = parse_int(query, routes.ROUTES_WAIT_MS, name_server.limits.wait_ms_max)
        found = name_server.routes(topic)
        if wait_ms and query.get("version") == found.version:
            gone, client = client_gone(request.scope), client_of(request.scope)
            await name_server.watchers.wait(topic, found.version, wait_ms / 1000, gone, client)
            found = name_server.routes(topic)
        await send_answer(request.send, json_answer(found.body))

    async def cluster(self, request: HttpRequest) -> None:
        registry, now_s = self._name_server.registry, asyncio.get_running_loop().time()
        heard, of_brokers = dict(registry.last_heard()), sorted(registry.shown.items())  # both of this moment
        brokers: list[dict[str, Any]] = []
        described = 0
        for name, shown in of_brokers:
            replicas = [_describe(each, heard[Key(name, each.replica)], now_s) for each in shown.replicas]
            brokers.append({"broker": name, "cluster": shown.cluster, "replicas": replicas})
            described += len(replicas)
            if described >= DESCRIBED_AT_ONCE:
                described = 0
                await asyncio.sleep(0)
        await send_answer(request.send, json_answer(orjson.dumps({"brokers": brokers})))

    async def ready(self, request: HttpRequest) -> None:
        if self._name_server.leaving:
            stopping = make_problem("busy", "the name server is stopping")
            await send_answer(request.send, identified(stopping, request.scope))  # which no bound has refused
        else:
            await send_answer(request.send, json_answer(b'{"status":"ready"}'))

    async def metrics(self, request: HttpRequest) -> None:
        headers = [(b"content-type", CONTENT_TYPE_LATEST.encode())]
        await send_answer(request.send, Answer(200, headers, generate_latest(self._metrics)))


def _describe(shown: ShownReplica, heard: Heard, now_s: float) -> dict[str, Any]:
    told = heard.told
    return {
        **shown._asdict(),
        "log_id": told.log_id,
        "permission": told.permission,
        "seen_ms_ago": max(round((now_s - heard.heard_s) * 1000), 0),
        "topics": len(told.topics),
    }
