"""HTTP to one gateway, on an event loop."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote_plus

import aiohttp
import orjson
from aiohttp.abc import AbstractStreamWriter
from yarl import URL

from lakemq import __version__
from lakemq.client.errors import Closed, Unreachable, Untrusted
from lakemq.contract.errors import error_of_answer
from lakemq.contract.forms import JSON
from lakemq.contract.route import Target
from lakemq.model.errors import InvalidRequest, LakemqError
from lakemq.model.names import speaks_tls
from lakemq.wire.credentials import UNAUTHENTICATED, Credentials
from lakemq.wire.tls import client_context, explain, is_refusal

ANSWER_TIMEOUT_S = 30.0
CONNECT_TIMEOUT_S = 5.0
CONNECT_SHARE = 0.9
"""Of a short time: what can't be connected to is known from what doesn't answer."""
CONNECTIONS_MAX = 2048
"""To one gateway: a request past it waits for a connection. A long poll holds one."""

Params = Mapping[str, str | int]
Piece = bytes | memoryview
Body = bytes | list[Piece]


class Answer(NamedTuple):
    """A whole answer of status 2xx. `headers` are found in any case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON; raises `LakemqError` when it is none."""
        try:
            return orjson.loads(self.body)
        except orjson.JSONDecodeError:
            raise LakemqError("the answer is no JSON: is this a lakemq gateway?") from None


class _Pieces(aiohttp.payload.Payload):
    """A body in pieces, sent without being put together. It can be sent again."""

    _autoclose = True

    def __init__(self, pieces: list[Piece], content_type: str) -> None:
        super().__init__(pieces, content_type=content_type)
        self._pieces = pieces
        self._size = sum(len(piece) for piece in pieces)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return b"".join(self._pieces).decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        for piece in self._pieces:
            await writer.write(piece)


class Transport:
    """One gateway. Lives on the event loop of its first request; close it there.

    It holds connections, and nothing else: no retries, but for a token that is found when it is asked for. Requests
    may run side by side. Without `credentials` they are those of the environment.
    """

    def __init__(
        self, address: str, connections_max: int = CONNECTIONS_MAX, credentials: Credentials | None = None
    ) -> None:
        self.address = address.rstrip("/")
        self._credentials = Credentials() if credentials is None else credentials
        self._connections_max = connections_max
        self._session: aiohttp.ClientSession | None = None
        self._opened_s = 0.0
        self._before: list[aiohttp.ClientSession] = []
        """Sessions with connections from before a token was found, on which it must not go."""
        self._closed = False

    async def request(
        self,
        target: Target,
        *,
        params: Params | None = None,
        body: Body = b"",
        content_type: str = JSON,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = ANSWER_TIMEOUT_S,
    ) -> Answer:
        """One exchange. `timeout_s` is for the whole of it.

        Raises `Unreachable`, `Closed`, and the answer's own error where its status isn't 2xx:
        redirections are not followed.
        """
        query = f"?{_query(params)}" if params else ""
        url = URL(f"{self.address}{target.path}{query}", encoded=True)
        timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=min(CONNECT_TIMEOUT_S, timeout_s * CONNECT_SHARE))
        note: str | None = None
        for last in (False, True):
            token = self._credentials.headers(self.address)
            payload, sent = _payload(body, content_type), {**token, **(headers or {})} if token else headers
            answer = await self._exchange(target.method, url, payload, sent, timeout)
            if answer.status != UNAUTHENTICATED or last:
                break
            note = self._credentials.refused(self.address, token, answer.body)
            if note is not None:
                break
        retry_after = answer.headers.get("Retry-After")
        if (error := error_of_answer(answer.status, answer.body, "", note or "", retry_after)) is not None:
            raise error
        return answer

    async def _exchange(
        self,
        method: str,
        url: URL,
        payload: _Pieces | None,
        headers: Mapping[str, str] | None,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109  it is aiohttp's, for each of its steps
    ) -> Answer:
        try:
            async with self._open().request(
                method, url, data=payload, headers=headers, timeout=timeout, ssl=self._tls(), allow_redirects=False
            ) as response:
                return Answer(response.status, response.headers, await response.read())
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise self._unreachable(error, sent=False) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._unreachable(error, sent=True) from error
        except ValueError as error:  # an address that says who asks, and a token
            raise InvalidRequest(f"this can't be sent: {error}") from None

    async def get(self, target: Target, params: Params | None = None, timeout_s: float = ANSWER_TIMEOUT_S) -> Any:
        """A request without a body, answered with JSON."""
        return (await self.request(target, params=params, timeout_s=timeout_s)).json()

    async def send(
        self,
        target: Target,
        content: object,
        params: Params | None = None,
        timeout_s: float = ANSWER_TIMEOUT_S,
    ) -> Any:
        """A request with JSON, answered with JSON; None when the answer is empty."""
        body = orjson.dumps(content)
        answer = await self.request(target, params=params, body=body, timeout_s=timeout_s)
        return answer.json() if answer.body else None

    async def close(self) -> None:
        """Close the connections, for good. Requests under way end with `Unreachable`, later ones with
        `Closed`."""
        self._closed = True
        sessions = [*self._before, *([] if self._session is None else [self._session])]
        self._session, self._before = None, []
        for session in sessions:
            await session.close()
        if sessions:
            await asyncio.sleep(0)  # so that the connections' own callbacks run

    def _open(self) -> aiohttp.ClientSession:
        if self._closed:
            raise Closed(f"the client of {self.address} is closed")
        if self._session is not None and not self._credentials.may_have(self.address, self._opened_s):
            self._before.append(self._session)
            self._session = None
        if self._session is None:
            self._opened_s = time.monotonic()
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=self._connections_max, ttl_dns_cache=60, socket_factory=self._socket
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": f"lakemq-python/{__version__}"},
                read_bufsize=1 << 20,
            )
        return self._session

    def _tls(self) -> ssl.SSLContext | bool:
        """By which new connections speak: its files may have changed."""
        return client_context(None) if speaks_tls(self.address) else True

    def _socket(self, found: tuple[Any, ...]) -> socket.socket:
        """That of a new connection, unless a token that was found would go to somebody else by it."""
        self._credentials.check(self.address)
        return socket.socket(found[0], found[1], found[2])

    def _unreachable(self, error: Exception, sent: bool) -> Unreachable:
        cause = _cause(error)
        detail = f"no answer from the gateway at {self.address}: {explain(cause)}"
        return Untrusted(detail) if is_refusal(cause) else Unreachable(detail, sent)


def _cause(error: Exception) -> BaseException:
    """What TLS says came in the way, without what aiohttp says of it; else the error itself."""
    of_tls = aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorSSLError
    cause = error.__cause__
    return error if cause is None or not isinstance(error, of_tls) else cause


def _query(params: Params) -> str:
    """As `urlencode`, in a third of the time: most values are numbers."""
    return "&".join([f"{name}={each if isinstance(each, int) else quote_plus(each)}" for name, each in params.items()])


def _payload(body: Body, content_type: str) -> _Pieces | None:
    pieces: list[Piece] = [body] if isinstance(body, bytes) else body
    return _Pieces(pieces, content_type) if any(pieces) else None
