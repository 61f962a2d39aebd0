"""The FastAPI application: routes, errors and documentation of everything the gateway serves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import NamedTuple

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.dependencies import models
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute

from lakemq import __version__
from lakemq.contract import find_routes as found_at
from lakemq.contract import routes
from lakemq.contract.grammar import GRAMMAR
from lakemq.contract.route import Route
from lakemq.gateway.cold.by_key import KeySearch
from lakemq.gateway.http.answered import answered_when, refused_when
from lakemq.gateway.process.broker import Broker
from lakemq.gateway.process.metrics_page import MetricsPage
from lakemq.gateway.process.openapi import complete
from lakemq.gateway.produce.produce import Producer
from lakemq.gateway.produce.transact import Transactor
from lakemq.gateway.pull.history import History
from lakemq.gateway.pull.pull import Puller
from lakemq.gateway.pull.read_at import ReadAt
from lakemq.gateway.pull.search import TopicSearch
from lakemq.gateway.receive import serve
from lakemq.gateway.receive.places import Places
from lakemq.gateway.receive.receiver import Receiver
from lakemq.gateway.redrive import Discarder, Listing
from lakemq.gateway.requests.request_handler import RequestHandler
from lakemq.gateway.requests.requests import Requests
from lakemq.gateway.routes import (
    access_routes,
    broker_routes,
    client_routes,
    docs_routes,
    erasure_routes,
    find_routes,
    group_routes,
    leader_routes,
    log_level_routes,
    log_routes,
    message_routes,
    redrive_routes,
    routing_routes,
    schema_routes,
    sink_routes,
    topic_routes,
    transaction_routes,
    usage_routes,
    waiting_routes,
)
from lakemq.gateway.routes.log_end import LogEnd
from lakemq.gateway.routes.log_frames import LogFrames
from lakemq.gateway.sinks.stager import Stager
from lakemq.model.errors import LakemqError
from lakemq.storage.log.followed_log import FollowedLog
from lakemq.web.front import Front
from lakemq.web.problems import Answer, answer_to, identified, make_problem
from lakemq.web.request import Handler, HttpRequest
from lakemq.web.traced import RequestSpans

_SHOW_MESSAGES = (
    *(routes.PULL, routes.MESSAGES_BY_KEY, routes.MESSAGE, routes.LOG_MESSAGES, routes.LOG_FRAMES),
    *(found_at.SEARCH, found_at.HISTORY),
)
_BUILDING = threading.Lock()
"""While FastAPI builds routes it silences a warning of pydantic's, for the whole process: two gateways of one process
would undo that for each other."""
_HTTP_CODES = {413: "message_too_large"}

DESCRIPTION = """A message queue with Apache RocketMQ's model on a lakehouse.
All times are milliseconds since the Unix epoch, all offsets 64-bit integers from 0.
Errors are `application/problem+json` with a stable `code`."""


class App(NamedTuple):
    """The ASGI application of a broker, and what its quick requests share: the producer, the spans."""

    front: Front
    producer: Producer
    spans: RequestSpans | None


def make_app(broker: Broker) -> App:
    """The application of a broker, which may not be open yet: that begins another state, so nothing here takes hold of
    any."""
    with _BUILDING:
        return _make_app(broker)


def _make_app(broker: Broker) -> App:
    producer = make_producer(broker)
    ends = LogEnd(broker.name, broker.store, broker.work.waiters, broker.router.timer_ms)
    handlers = _handlers(broker, producer, ends)
    routers = (*_routers(broker, ends), docs_routes.make_router(lambda: complete(app.openapi(), handlers)))
    by_fastapi = [each for router in routers for each in router.routes]
    _check_all_served(by_fastapi, handlers)
    app = _of_fastapi(by_fastapi)
    _add_error_handlers(app, broker.work.counters.problem)
    served = handlers | _refusals(broker.log) if isinstance(broker.log, FollowedLog) else handlers
    checks = dict.fromkeys(_SHOW_MESSAGES, broker.erasures.check_reads) if broker.follower is not None else {}
    problem = broker.work.counters.problem
    until, refused = answered_when(broker.log), refused_when(broker.log)
    most, durations = broker.work.limits.message_bytes_max, broker.work.counters.durations
    ratio, to = broker.settings.traces.ratio, broker.work.spans
    spans = None if to is None else RequestSpans(to, broker.clock.now_ms, ratio, GRAMMAR)
    front = Front(GRAMMAR, served, app, most, problem, until, checks, refused, broker.access, durations, spans)
    return App(front, producer, spans)


def _refusals(log: FollowedLog) -> dict[Route, Handler]:
    """Of a follower: whatever writes is refused."""

    async def refuse(_: HttpRequest) -> None:
        raise log.not_leader()

    return {route: refuse for route in routes.ALL if route.writes}


def _of_fastapi(served: list[BaseRoute]) -> FastAPI:
    """With these routes as they are: of a router that is included FastAPI makes all routes a second time, a third
    of the work of a start once the imports are done."""
    return FastAPI(
        title="lakemq",
        version=__version__,
        description=DESCRIPTION,
        redirect_slashes=False,
        openapi_url=None,
        routes=served,
    )


def forget_handlers() -> None:
    """Have FastAPI let go of the handlers of all applications: it keeps what it found out about each function, and with
    the function all that it sees, which is a broker's whole state. It finds it out again where it has to."""
    for each in vars(models).values():
        if hasattr(each, "cache_clear"):
            each.cache_clear()


def make_producer(broker: Broker) -> Producer:
    """Who serves produce requests."""
    transactions, delays = broker.router.transactions, broker.settings.delay
    return Producer(broker.store, broker.topics, broker.idempotency, transactions, delays, broker.work)


def make_puller(broker: Broker) -> Puller:
    """Who serves pulls."""
    bound_bytes = broker.settings.replication.far_behind_bytes
    keeper = broker.follower or broker.replication
    read_at = ReadAt(broker.log, bound_bytes, keeper.readable) if bound_bytes and keeper is not None else None
    is_behind = broker.follower is not None
    return Puller(broker.store, broker.cold, broker.gaps, broker.work, behind=is_behind, read_at=read_at)


def make_receiver(broker: Broker) -> Receiver:
    """Who hands messages out."""
    store, limits, groups = broker.store, broker.settings.receive, broker.groups
    places = Places(limits, groups, store.log, broker.clock)
    cold, gaps, work, hand_out = broker.cold, broker.gaps, broker.work, broker.router.hand_out
    return Receiver(store, broker.topics, cold, gaps, places, groups.moves, limits, work, hand_out)


def _check_all_served(by_fastapi: list[BaseRoute], handlers: Mapping[Route, Handler]) -> None:
    """Raise `NotImplementedError` unless each route of the contract is served, and no other."""
    served = {(method, each.path) for each in by_fastapi if isinstance(each, APIRoute) for method in each.methods or ()}
    served |= {(each.method, each.path) for each in handlers}
    if different := served ^ {(each.method, each.path) for each in routes.ALL}:
        raise NotImplementedError(f"routes that are not both served and of the contract: {different}")


def _handlers(broker: Broker, producer: Producer, ends: LogEnd) -> dict[Route, Handler]:
    """What is too hot, or has too large bodies, for FastAPI."""
    store, topics, work, settings = broker.store, broker.topics, broker.work, broker.settings
    clients = broker.groups.members.clients
    receives = serve.Server(store, make_receiver(broker), broker.router.acknowledger, clients, settings, work)
    requests = RequestHandler(Requests(store, topics, settings.requests.waiting_max, work), work)
    return {
        routes.PRODUCE: producer.serve,
        routes.BEGIN: producer.serve_halves,
        routes.RESOLVE: Transactor(broker.router.transactions.resolve).serve,
        routes.PULL: make_puller(broker).serve,
        routes.RECEIVE: receives.serve_receive,
        routes.ACKS: receives.serve_acks,
        routes.INVISIBILITY: receives.serve_invisibility,
        routes.REQUEST: requests.serve_request,
        routes.REPLY: requests.serve_reply,
        routes.STAGE_PART: Stager(broker.sinks, work).serve,
        routes.LOG_FRAMES: LogFrames(store, ends, work, broker.replication).serve,
    }


def _routers(broker: Broker, ends: LogEnd) -> list[APIRouter]:
    store, router, cold, work = broker.store, broker.router, broker.cold, broker.work
    log, limits = store.log, work.limits
    by_key = KeySearch(store, cold, limits.pull_bytes_max, limits.client_share)
    search = TopicSearch(store, cold, by_key, limits.pull_bytes_max, limits.client_share)
    return [
        message_routes.make_router(store, cold, by_key),
        find_routes.make_router(
            *(log, search, History(store, cold, limits.client_share), broker.groups, work.listing, broker.clock)
        ),
        routing_routes.make_router(router, log, work.answering),
        transaction_routes.make_router(router, limits.wait_ms_max),
        redrive_routes.make_router(
            broker.redriver,
            Discarder(router.executor, cold, limits.client_share),
            Listing(router.executor, cold, limits.client_share),
            broker.groups,
        ),
        sink_routes.make_router(broker.sinks, broker.replication),
        group_routes.make_router(broker.groups, log, work),
        client_routes.make_router(broker.groups, log, work),
        topic_routes.make_router(log, broker.topics, cold, work.listing, limits.message_bytes_max),
        schema_routes.make_router(log, broker.topics, work.listing),
        log_routes.make_router(store, ends, work.answering, work.matching, limits.wait_ms_max),
        erasure_routes.make_router(broker.erasures, log, broker.topics, router.transactions, broker.replication, cold),
        broker_routes.make_router(broker, log, router.jobs, work, MetricsPage(broker).write),
        leader_routes.make_router(broker.lead),
        log_level_routes.make_router(router.jobs.levels),
        access_routes.make_router(broker.users, work.listing, broker.settings.auth.required),
        usage_routes.make_router(broker.users, broker.quotas, broker.audit),
        waiting_routes.make_router(
            router.waiting(limits.client_share), router.transactions, store, work.listing, broker.clock
        ),
    ]


def to_response(answer: Answer) -> Response:
    """An answer as FastAPI wants it."""
    response = Response(bytes(answer.body), answer.status)
    for name, value in answer.headers:
        response.headers[name.decode()] = value.decode()
    return response


def _add_error_handlers(app: FastAPI, count: Callable[[str], None]) -> None:
    def problem(request: Request, answer: Answer, code: str) -> Response:
        count(code)
        return to_response(identified(answer, request.scope))

    async def failed(request: Request, error: Exception) -> Response:
        return to_response(answer_to(error, count, request.scope))

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        fault = error.errors()[0]
        place = ".".join(str(part) for part in fault["loc"])
        return problem(request, make_problem("invalid_request", f"{place}: {fault['msg']}"), "invalid_request")

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        code = _HTTP_CODES.get(error.status_code, "invalid_request")
        headers = [(name.encode(), value.encode()) for name, value in (error.headers or {}).items()]
        detail = f"{error.detail}: {request.method} {request.scope['path'][:200]}"
        return problem(request, make_problem(code, detail, headers), code)

    app.add_exception_handler(LakemqError, failed)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(Exception, failed)
