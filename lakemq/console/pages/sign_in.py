"""Signing in and out, and the choice of a broker."""

from __future__ import annotations

import time

from starlette.responses import JSONResponse, Response

from lakemq.console.asked import Broker
from lakemq.console.sessions import Session, new_id
from lakemq.console.visit import Visit, checked_next
from lakemq.model.errors import LakemqError, Unauthenticated
from lakemq.model.token import parse_token
from lakemq.wire.credentials import Credentials

_NO_TOKEN = "This isn't a token. A token looks like lmq_<id>_<secret>."  # noqa: S105  (shown to people)
_REFUSED = "The broker doesn't know this token. It was revoked, has expired, or belongs to another broker."
_WHY = {"token": "Sign in: the broker requires a token."}


async def show(visit: Visit) -> Response:
    """The page to sign in."""
    return _page(visit, 200, _WHY.get(visit.field("why"), ""), visit.request.query_params.get("next", "/"))


def _page(visit: Visit, status: int, problem: str, following: str) -> Response:
    at = visit.services.addresses[0] if visit.session is None else visit.broker.address
    return visit.page("sign_in.html", status, problem=problem, following=checked_next(following), at=at)


async def sign_in(visit: Visit) -> Response:
    """Ask the broker who that is. The token goes into this process's memory, or nowhere."""
    services, now_s = visit.services, time.monotonic()
    following = visit.form.get("next", "/")
    try:
        token = parse_token(visit.form.get("token", "").strip()).text
    except Unauthenticated:
        return _refuse(visit, _NO_TOKEN, following)
    at = visit.form.get("at", "")
    address = at if at in services.addresses else services.addresses[0]
    session = Session("", Credentials(token), services.addresses, now_s)
    try:
        async with services.verifying.place(visit.client):
            who = await session.asked.brokers[address].who()
    except LakemqError as error:
        await session.asked.close()
        if error.code != "unauthenticated":
            raise
        return _refuse(visit, _REFUSED, following)
    session.user = "" if who.user is None else who.user.name
    services.sessions.end(visit.name)
    visit.name, visit.session = services.sessions.begin(session), session
    return visit.go(checked_next(following))


def _refuse(visit: Visit, problem: str, following: str) -> Response:
    """Only what failed is counted: a valid token is taken however often others failed from the same address."""
    tries, now_s = visit.services.tries, time.monotonic()
    wait_s = tries.wait_s(visit.client, now_s)
    if wait_s:
        return _page(visit, 429, f"Too many attempts with tokens that aren't valid. Wait {wait_s:.0f} s.", following)
    tries.failed(visit.client, now_s)
    return _page(visit, 401, problem, following)


async def sign_out(visit: Visit) -> Response:
    """Forget the session, and its token."""
    visit.services.sessions.end(visit.name)
    visit.name, visit.session = new_id(), None
    return visit.go("/sign-in?done=signed-out" if visit.services.anonymous is None else "/?done=signed-out")


async def choose(visit: Visit) -> Response:
    """Another broker is looked at: its overview, or the page that was asked for."""
    chosen: Broker = visit.broker
    response = visit.go(checked_next(visit.form.get("next", "/")))
    response.set_cookie(
        visit.services.cookies[1], chosen.address, httponly=True, samesite="strict", secure=visit.services.by_tls
    )
    return response


async def health(visit: Visit) -> Response:
    """Whether the process is up."""
    del visit
    return JSONResponse({"status": "up"})


ROUTES = (
    ("GET", "/sign-in", show),
    ("POST", "/sign-in", sign_in),
    ("POST", "/sign-out", sign_out),
    ("POST", "/broker", choose),
    ("GET", "/healthz", health),
)
