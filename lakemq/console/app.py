"""The common path of all pages: the session, the check that a form is one of this console's, error texts, and the
headers of every answer."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from urllib.parse import parse_qsl, quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route, Router
from starlette.types import Message, Receive, Scope, Send

from lakemq.console.assets import Assets
from lakemq.console.pages import ROUTES, Handler
from lakemq.console.places import Places
from lakemq.console.rendering import HEADERS, make_templates
from lakemq.console.sessions import Session, Sessions, new_id
from lakemq.console.tries import Tries
from lakemq.console.visit import Refused, Services, Visit
from lakemq.console.words import status_of, words_for
from lakemq.model.errors import InvalidRequest, LakemqError
from lakemq.settings import Console as Limits
from lakemq.settings import is_loopback
from lakemq.web.asgi import Disconnected, read_body
from lakemq.web.gate import Gate
from lakemq.wire.credentials import NOBODY

FORM = "application/x-www-form-urlencoded"
FORM_FIELDS_MAX = 64
PARSED_AT_ONCE_MAX = 64 * 1024
VERIFIED_AT_ONCE_MAX = 16
VERIFIED_WAITING_MAX = 256
"""So many tokens are checked at once, and so many more wait for that, of addresses in turn."""
PUBLIC = ("/sign-in", "/healthz")
"""Pages that take no token."""
ID_CHARACTERS_MAX = 64
_HEADERS = tuple((name.lower().encode(), value.encode()) for name, value in HEADERS.items())
_FOREVER = "public, max-age=31536000, immutable"
_BACK = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0"><title>lakemq</title>'
"""Somebody follows a link of another site, and browsers leave out the cookie then. From this page on they send it."""

logger = logging.getLogger(__name__)


class Console:
    """The ASGI application. `port`: what it listens on, by which two consoles of a machine keep their cookies apart."""

    def __init__(self, limits: Limits, brokers: Sequence[str], port: int, by_tls: bool) -> None:
        assets = Assets()
        is_open = is_loopback(limits.host) and not limits.sign_in_required
        addresses = tuple(dict.fromkeys(each.rstrip("/") for each in brokers))
        self._closing: set[asyncio.Task[None]] = set()
        self._services = Services(
            limits,
            addresses,
            make_templates(assets.version),
            assets,
            Sessions(limits, self._ended),
            Tries(),
            Gate(VERIFIED_AT_ONCE_MAX, VERIFIED_WAITING_MAX, limits.client_share),
            Session("", NOBODY, addresses, 0) if is_open else None,
            Places(limits.live_max, limits.client_share),
            (f"lakemq_session_{port}", f"lakemq_broker_{port}"),
            by_tls,
        )
        routes = [Route(path, self._endpoint(handler), methods=[method]) for method, path, handler in ROUTES]
        routes.append(Route("/static/{version}/{name:path}", self._static, methods=["GET"]))
        self._router = Router(routes, redirect_slashes=False, default=self._no_page)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI's."""
        await self._router(scope, receive, _with_headers(send))

    def stop(self) -> None:
        """Stop updating live pages, because the server stops."""
        self._services.live.stopping.set()

    async def close(self) -> None:
        """Forget who is signed in, and close the connections to brokers."""
        self._services.sessions.end_all()
        if self._services.anonymous is not None:
            self._ended(self._services.anonymous)
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _ended(self, session: Session) -> None:
        task = asyncio.ensure_future(session.asked.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _endpoint(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            return await self._answer(request, handler)

        return answer

    async def _answer(self, request: Request, handler: Handler) -> Response:
        services = self._services
        cookie = services.cookies[0]
        said = request.cookies.get(cookie, "")[:ID_CHARACTERS_MAX]
        if not said and request.headers.get("sec-fetch-site") == "cross-site" and request.method == "GET":
            return HTMLResponse(_BACK)
        now_s = time.monotonic()
        services.sessions.sweep(now_s)
        visit = Visit(services, request, said or new_id(), services.sessions.find(said, now_s))
        try:
            response = await self._respond(visit, handler)
        except Disconnected:
            return Response(status_code=400)
        except LakemqError as error:
            response = refusal(visit, error)
        except Exception:
            logger.exception("a page of the console failed: %s %s", request.method, request.url.path[:200])
            response = visit.page("error.html", 500, words=words_for("internal", ""))
        if visit.name != said:
            response.set_cookie(cookie, visit.name, httponly=True, samesite="strict", secure=services.by_tls)
        return response

    async def _respond(self, visit: Visit, handler: Handler) -> Response:
        request = visit.request
        if visit.session is None and self._services.anonymous is None and request.url.path not in PUBLIC:
            return visit.go(f"/sign-in?next={quote(_here(request), safe='')}")
        if request.method == "POST":
            visit.form = await _read_form(request, self._services.limits.request_bytes_max)
            if not self._services.sessions.is_form_token(visit.name, visit.form.get("form_token", "")):
                raise Refused(
                    "This page was open for too long, or isn't this console's. Load it again, and try once more."
                )
        return await handler(visit)

    async def _static(self, request: Request) -> Response:
        asset = self._services.assets.find(request.path_params["name"])
        if asset is None:
            return Response("there is no such file\n", 404, media_type="text/plain")
        kept = _FOREVER if request.path_params["version"] == self._services.assets.version else "no-store"
        return Response(asset.content, media_type=asset.media_type, headers={"Cache-Control": kept})

    async def _no_page(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def none(visit: Visit) -> Response:
            return visit.page("error.html", 404, words=words_for("page_not_found", ""))

        response = await self._answer(Request(scope, receive), none)
        await response(scope, receive, send)


def refusal(visit: Visit, error: LakemqError) -> Response:
    """What a page says of an error. Who isn't known any more signs in."""
    if error.code == "unauthenticated" and visit.request.url.path not in PUBLIC:
        if visit.session is not None:
            visit.services.sessions.end(visit.name)
        return visit.go(f"/sign-in?why=token&next={quote(_here(visit.request), safe='')}")
    return visit.page("error.html", status_of(error.code), words=words_for(error.code, error.detail))


def _here(request: Request) -> str:
    """The page, to come back to; of a change, what comes before it."""
    if request.method != "GET" or request.url.path.startswith("/live/"):
        return "/"
    return request.url.path + (f"?{request.url.query}" if request.url.query else "")


def _with_headers(send: Send) -> Send:
    """Sends answers with the headers that all of them have."""

    async def put(message: Message) -> None:
        if message["type"] == "http.response.start":
            said = {name for name, _ in message["headers"]}
            message["headers"] = [*message["headers"], *(each for each in _HEADERS if each[0] not in said)]
        await send(message)

    return put


async def _read_form(request: Request, bytes_max: int) -> dict[str, str]:
    """Its fields; of one that is there twice the last. Raises `MessageTooLarge`, `InvalidRequest`."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
        raise InvalidRequest(f"a form is {FORM}")
    body = await read_body(request.receive, bytes_max)
    parse = _parse_form if len(body) <= PARSED_AT_ONCE_MAX else lambda raw: asyncio.to_thread(_parse_form, raw)
    found = parse(body)
    return found if isinstance(found, dict) else await found


def _parse_form(body: bytes) -> dict[str, str]:
    try:
        text = body.decode("ascii")
        return dict(parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=FORM_FIELDS_MAX))
    except ValueError:
        raise InvalidRequest("this isn't a form that a browser sends") from None
