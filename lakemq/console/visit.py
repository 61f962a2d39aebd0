"""One request: its session, its broker, and the fields of its form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from lakemq.console.asked import Asked, Broker, Who
from lakemq.console.assets import Assets
from lakemq.console.looks import Pair, Watches
from lakemq.console.places import Places
from lakemq.console.sessions import Session, Sessions
from lakemq.console.tries import Tries
from lakemq.model.errors import InvalidRequest, LakemqError
from lakemq.settings import Console
from lakemq.web.gate import Gate

DONE = {
    "created": "Topic created.",
    "changed": "Topic changed.",
    "deleted": "Deleted.",
    "sent": "Message stored.",
    "reset": "Offsets reset.",
    "paused": "Group paused: it receives nothing until you resume it.",
    "resumed": "Group resumed.",
    "redriving": "The redrive has started.",
    "discarded": "The dead letters are discarded.",
    "discarded-some": "The dead letters are discarded, except for those that a redrive has sent or is sending.",
    "signed-out": "You are signed out.",
    "user-disabled": "The user is disabled.",
    "user-enabled": "The user is enabled.",
    "token-revoked": "The token is revoked.",
    "policies-added": "The policies are added.",
    "policy-removed": "The policy is removed.",
    "run-asked": "Run requested: it starts within seconds, or when the current run ends.",
    "committed": "Committed: the message is delivered.",
    "rolled-back": "Rolled back: nobody gets the message.",
    "schema-set": "Schema set. SQL has its columns within some seconds.",
    "schema-dropped": "Schema dropped. The messages are still there.",
    "run-cancelled": "The run is being cancelled.",
}
"""What a page says of a change that led to it, by the word in its address: nothing else can be put there."""
NEXT_MAX = 2_000
NAME_MAX = 1_000


class Services(NamedTuple):
    """What all requests of a console share. `anonymous`: brokers as nobody in particular asks them; None: it takes a
    token to look. `verifying`: places to ask a broker whose a token is.
    `live`: places of pages that are kept current."""

    limits: Console
    addresses: tuple[str, ...]
    templates: Environment
    assets: Assets
    sessions: Sessions
    tries: Tries
    verifying: Gate
    anonymous: Session | None
    live: Places
    cookies: tuple[str, str]
    by_tls: bool


class Visit:
    """`name`: the id in the cookie. `form`: the fields of a form, of a POST."""

    def __init__(self, services: Services, request: Request, name: str, session: Session | None) -> None:
        self.services = services
        self.request = request
        self.name = name
        self.session = session
        self.form: Mapping[str, str] = {}
        self._chosen = request.cookies.get(services.cookies[1], "")

    @property
    def seen_by(self) -> Session:
        """The session. Raises `InvalidRequest` if there is none, which cannot happen where a token is required: such
        requests are refused earlier."""
        found = self.session or self.services.anonymous
        if found is None:
            raise InvalidRequest("sign in first")
        return found

    @property
    def asked(self) -> Asked:
        """All brokers, as this user asks them."""
        return self.seen_by.asked

    @property
    def watches(self) -> Watches:
        """Looks at all of them."""
        return self.seen_by.watches

    async def pair(self) -> Pair:
        """The last two looks at the one that is looked at."""
        return await self.watches.pair_of(self.broker.address)

    @property
    def broker(self) -> Broker:
        """The one that is looked at; of a change, the one that its form was shown for. Raises `InvalidRequest` where
        a form names none."""
        brokers = self.asked.brokers
        if self.request.method == "POST":
            if (found := brokers.get(self.form.get("at", ""))) is None:
                raise InvalidRequest("this form is for a broker that this console no longer knows")
            return found
        return brokers.get(self._chosen) or next(iter(brokers.values()))

    @property
    def named_broker(self) -> Broker | None:
        """The one whose address a page's own address has; None: it has none. Raises `InvalidRequest`."""
        address = self.request.query_params.get("at")
        if not address or self.request.method == "POST":
            return None
        if (found := self.asked.brokers.get(address)) is None:
            raise InvalidRequest("this page is of a broker that this console doesn't know")
        return found

    async def who(self) -> Who:
        """Whom the broker takes this user for. Raises `Unauthenticated`, `Unreachable`."""
        return await self.broker.who()

    def path(self, name: str) -> str:
        """A name in the path."""
        return str(self.request.path_params[name])

    def field(self, name: str, default: str = "") -> str:
        """A field of the form, or of the query. Raises `InvalidRequest` where it is too long."""
        found = self.form.get(name) if self.request.method == "POST" else self.request.query_params.get(name)
        if found is not None and len(found) > NAME_MAX:
            raise InvalidRequest(f"{name} is too long")
        return default if found is None else found.strip()

    def number(self, name: str, default: int, least: int = 0, most: int = 2**63 - 1) -> int:
        """So of a number. Raises `InvalidRequest`."""
        text = self.field(name)
        if not text:
            return default
        if not text.isascii() or not text.isdigit() or not least <= int(text[:20]) <= most:
            raise InvalidRequest(f"{name} is a number from {least} to {most}, not {text[:40]!r}")
        return int(text)

    def page(self, template: str, status: int = 200, **values: Any) -> Response:
        """A page."""
        return HTMLResponse(self.render(template, **values), status)

    def render(self, template: str, **values: Any) -> str:
        """A page, or a part of one."""
        return self.services.templates.get_template(template).render(self._shared() | values)

    def _shared(self) -> dict[str, Any]:
        seen_by = self.session or self.services.anonymous
        return {
            "user": "" if self.session is None else self.session.user,
            "may_look": seen_by is not None,
            "form_token": self.services.sessions.form_token(self.name),
            "at": "" if seen_by is None else self._at(),
            "brokers": self.services.addresses,
            "here": self.request.url.path,
            "done": DONE.get(self.request.query_params.get("done", ""), ""),
        }

    def _at(self) -> str:
        known = self.services.addresses
        said = self.form.get("at", "") if self.request.method == "POST" else self._chosen
        return said if said in known else known[0]

    def go(self, path: str, done: str = "") -> Response:
        """On to a page, which says what was done."""
        joint = "&" if "?" in path else "?"
        where = f"{path}{joint}done={done}" if done else path
        if "hx-request" in self.request.headers:
            return Response(headers={"HX-Redirect": where})
        return RedirectResponse(where, 303)

    @property
    def taker(self) -> str:
        """By whom live pages are counted: the user, or the address if nobody is signed in."""
        return self.client if self.session is None else self.session.user

    @property
    def client(self) -> str:
        """The address that asks."""
        return "" if self.request.client is None else self.request.client.host


def checked_next(where: str) -> str:
    """A page of this console, to which somebody goes on; its first one where that is none."""
    if len(where) > NEXT_MAX or not where.startswith("/") or where[1:2] in ("/", "\\"):
        return "/"
    if any(ord(each) <= 32 or ord(each) == 127 or each == "\\" for each in where):
        return "/"
    try:
        parts = urlsplit(where)
    except ValueError:
        return "/"
    return "/" if parts.scheme or parts.netloc or parts.path.startswith("/sign-") else where


class Refused(LakemqError):
    """A form isn't taken."""

    code = "refused"
