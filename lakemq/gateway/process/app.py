"""The FastAPI application: routes, errors and documentation of everything the gateway serves."""

from __future__ import annotations

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from lakemq import __version__
from lakemq.gateway.broker.broker import Broker
from lakemq.gateway.http.problems import Answer, answer_to, make_problem
from lakemq.gateway.http.strict import Strictness
from lakemq.gateway.routes import (
    broker_routes,
    docs_routes,
    erasure_routes,
    group_routes,
    log_routes,
    message_routes,
    receive_routes,
    redrive_routes,
    request_routes,
    routing_routes,
    sink_routes,
    topic_routes,
    transaction_routes,
)
from lakemq.gateway.routes.front import Front
from lakemq.model.errors import LakemqError

_HTTP_CODES = {404: "not_found", 405: "method_not_allowed", 413: "message_too_large"}

DESCRIPTION = """A message queue with Apache RocketMQ's model on a lakehouse.
All times are milliseconds since the Unix epoch, all offsets 64-bit integers from 0.
Errors are `application/problem+json` with a stable `code`."""


def make_app(broker: Broker) -> Front:
    """The ASGI application of an opened broker."""
    strictness = Strictness()
    app = FastAPI(
        title="lakemq",
        version=__version__,
        description=DESCRIPTION,
        redirect_slashes=False,
        openapi_url=None,
        dependencies=[Depends(strictness.check)],
    )
    front = Front(app, broker)
    app.state.broker = broker
    for router in (
        message_routes.make_router(front),
        routing_routes.make_router(broker),
        transaction_routes.make_router(front),
        receive_routes.make_router(front),
        request_routes.make_router(front),
        redrive_routes.make_router(broker.redriver),
        sink_routes.make_router(front),
        group_routes.make_router(broker),
        topic_routes.make_router(broker),
        log_routes.make_router(broker),
        erasure_routes.make_router(broker),
        broker_routes.make_router(broker),
        docs_routes.make_router(app.openapi),
    ):
        strictness.learn(router)
        app.include_router(router)
    _add_error_handlers(app, broker)
    return front


def to_response(answer: Answer) -> Response:
    """An answer as FastAPI wants it."""
    response = Response(bytes(answer.body), answer.status)
    for name, value in answer.headers:
        response.headers[name.decode()] = value.decode()
    return response


def _add_error_handlers(app: FastAPI, broker: Broker) -> None:
    def problem(answer: Answer, code: str) -> Response:
        broker.counters.problem(code)
        return to_response(answer)

    async def failed(_: Request, error: Exception) -> Response:
        return to_response(answer_to(error, broker.counters.problem))

    async def invalid(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        fault = error.errors()[0]
        place = ".".join(str(part) for part in fault["loc"])
        return problem(make_problem("invalid_request", f"{place}: {fault['msg']}"), "invalid_request")

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        code = _HTTP_CODES.get(error.status_code, "invalid_request")
        headers = [(name.encode(), value.encode()) for name, value in (error.headers or {}).items()]
        detail = f"{error.detail}: {request.method} {request.scope['path'][:200]}"
        return problem(make_problem(code, detail, headers), code)

    app.add_exception_handler(LakemqError, failed)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(Exception, failed)
