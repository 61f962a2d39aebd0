"""What answers questions about the jobs themselves, and has them run maintenance: who asks, what that one may."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Protocol

import orjson

from lakemq.contract.jobs_routes import CANCEL, RUN, STATE
from lakemq.contract.route import Route
from lakemq.jobs.served.handler import SqlHandler
from lakemq.jobs.served.refusals import Refusal
from lakemq.jobs.served.who import Asker
from lakemq.model.access import Action, Kind, Need, Resource
from lakemq.model.errors import Forbidden, InvalidRequest, Unauthenticated
from lakemq.web.asgi import read_body, send_answer
from lakemq.web.problems import json_answer
from lakemq.web.request import Handler, HttpRequest
from lakemq.web.request_id import about, request_id_of

BODY_BYTES_MAX = 1_000
_READS_ALL = Need((Action.GET,), Resource(Kind.CLUSTER))

logger = logging.getLogger(__name__)


class Control(Protocol):
    """The jobs of this process. For any thread."""

    def describe(self) -> dict[str, Any]:
        """How they are: `queries`, `maintenance` and `replays`."""
        ...

    def check_run(self, job: str) -> None:
        """Raises `InvalidRequest` for a job that isn't run so, `FlowControl` where too many wait."""
        ...

    def submit(self, job: str, asked_by: str) -> str:
        """Have a job of maintenance run; the request's id."""
        ...

    def check_cancel(self, job: str) -> None:
        """Raises `InvalidRequest` where there is no such job."""
        ...

    def cancel(self, job: str, asked_by: str) -> str:
        """Have its run end that is under way, and drop those that wait; the request's id."""
        ...


class JobsHandler:
    """That of one server: it shares with SQL who asks, and what that one may take."""

    def __init__(self, sql: SqlHandler, control: Control) -> None:
        self._sql = sql
        self._control = control
        self._describing = asyncio.Lock()
        self.handlers: Mapping[Route, Handler] = {STATE: self._state, RUN: self._run, CANCEL: self._cancel}

    async def _state(self, request: HttpRequest) -> None:
        asker = await self._admit(request, STATE, "state")
        async with self._describing:  # the lake's store may be slow, and others wait for the threads that ask it
            told = await self._sql.ask(self._control.describe)
        await _answer(request, told if _reads_all(asker) else _without_texts(told))

    async def _run(self, request: HttpRequest) -> None:
        asker = await self._admit(request, RUN, "run")
        await _read_nothing(request)
        await self._sql.ask(self._control.check_run, request.values[0])
        await self._note("run", request, asker)
        request_id = await self._sql.ask(self._control.submit, request.values[0], asker.name)
        await _answer(request, {"request_id": request_id})

    async def _cancel(self, request: HttpRequest) -> None:
        asker = await self._admit(request, CANCEL, "cancel")
        await self._sql.ask(self._control.check_cancel, request.values[0])
        await self._note("cancel", request, asker)
        request_id = await self._sql.ask(self._control.cancel, request.values[0], asker.name)
        await _answer(request, {"request_id": request_id})

    async def _admit(self, request: HttpRequest, route: Route, of: str) -> Asker:
        asker = await self._sql.admit(request, 0)
        try:
            _check(asker, route)
        except (Forbidden, Unauthenticated) as error:
            said = asker.name or "nobody known", asker.source, error.detail
            logger.warning("a request to the jobs was refused to %s from %s: %s", *said, extra=about(request.scope))
            what = " ".join(request.values)
            self._sql.refused(Refusal(asker.name, asker.source, what, error.detail, request_id_of(request.scope), of))
            raise
        return asker

    async def _note(self, of: str, request: HttpRequest, asker: Asker) -> None:
        """Raises `LakemqError` where it can't be written down: then it isn't done."""
        job, scope = request.values[0], request.scope
        await self._sql.ask(self._sql.audit, asker, of, job, request_id_of(scope))
        logger.info("maintenance by HTTP: %s %s, for %s from %s", of, job, asker.name, asker.source, extra=about(scope))


def _check(asker: Asker, route: Route) -> None:
    """Raises `Forbidden`, and `Unauthenticated` where that takes somebody who is known."""
    for right in route.rights.each:
        need = Need(right.actions, Resource(right.kind), right.guarded)
        for user in asker.users:
            if user is None and need.guarded:
                raise Unauthenticated(f"this takes a token of a user with {need}")
            if user is not None and not (verdict := user.decide(need, asker.source)).allowed:
                raise Forbidden(f"user {user.name} may not: it takes {need}, and {verdict.by}")


def _reads_all(asker: Asker) -> bool:
    return all(user is not None and user.may(_READS_ALL, asker.source) for user in asker.users)


def _without_texts(told: dict[str, Any]) -> dict[str, Any]:
    """What runs did, and why they failed, may name topics, and what somebody looked for: it is for who may read all."""
    maintenance: dict[str, Any] = dict(told["maintenance"])
    maintenance["runs"] = [_without_text(each) for each in maintenance["runs"]]
    maintenance["jobs"] = [each | {"last": _without_text(each["last"])} for each in maintenance["jobs"]]
    queries = [
        each | {"error": each["error"] and each["error"] | {"text": ""}, "recent": _without_errors(each["recent"])}
        for each in told["queries"]
    ]
    replays = [each | {"topic": None, "group": None} for each in told["replays"]]
    return told | {"maintenance": maintenance, "queries": queries, "replays": replays}


def _without_errors(batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each | {"error": None} for each in batches]


def _without_text(run: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if run is None else run | {"detail": None, "error": None}


async def _read_nothing(request: HttpRequest) -> None:
    body = await read_body(request.receive, BODY_BYTES_MAX)
    if body.strip() not in (b"", b"{}"):
        raise InvalidRequest("a run takes no parameters")


async def _answer(request: HttpRequest, said: dict[str, Any]) -> None:
    await send_answer(request.send, json_answer(orjson.dumps(said)))
