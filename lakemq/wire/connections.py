"""Connections to one gateway, with nothing but the standard library: any worker of a cluster has it."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

from lakemq import __version__
from lakemq.contract.errors import error_of_answer
from lakemq.contract.route import Target
from lakemq.model.errors import InvalidRequest, LakemqError
from lakemq.model.names import to_url
from lakemq.model.trust import Trust
from lakemq.wire.credentials import UNAUTHENTICATED, Credentials
from lakemq.wire.tls import NotTrusted, client_context, explain, is_refusal

CONNECT_TIMEOUT_S = 5.0
IDLE_MAX = 16
"""So many connections are kept for what is asked next."""

_HEADERS = {"User-Agent": f"lakemq-python/{__version__}"}

Params = Mapping[str, str | int]


class NoAnswer(Exception):
    """There was no connection, it broke, or the time was over. `sent`: whether the request may be carried out.
    `refusal`: what it was answered instead, where asking again can't help."""

    def __init__(self, reason: str, sent: bool, refusal: LakemqError | None = None) -> None:
        super().__init__(reason)
        self.sent = sent
        self.refusal = refusal


class Answer(NamedTuple):
    """A whole answer, of any status. `headers` are found in any case. `note`: what its error says beside."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    note: str = ""

    def error(self, whose: str = "") -> LakemqError | None:
        """What went wrong, where its status isn't 2xx; with several gateways, `whose` answer it is."""
        return error_of_answer(self.status, self.body, whose, self.note, self.headers.get("Retry-After"))


class Connections:
    """Those to the gateway at `address`. For any thread. It can be pickled before its first use. Without `credentials`
    they are those of the environment, and so is `trust`, for addresses that begin with https."""

    def __init__(self, address: str, credentials: Credentials | None = None, trust: Trust | None = None) -> None:
        self.address = to_url(address)
        self.trust = trust
        self.credentials = Credentials() if credentials is None else credentials
        parts = urlsplit(self.address)
        self._by_tls = parts.scheme == "https"
        self._host, self._port, self._prefix = parts.hostname or "", parts.port, parts.path.rstrip("/")
        self._idle: list[tuple[HTTPConnection, float]] = []
        """Each with when it was opened."""

    def ask(
        self,
        target: Target,
        params: Params | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 30.0,
        answer_bytes_max: int | None = None,
    ) -> Answer:
        """One exchange. `timeout_s` is for each wait for the gateway. Raises `NoAnswer`, also for an answer that is
        larger than `answer_bytes_max`, `InvalidRequest` for headers that can't be sent, and `SettingsError` for
        certificates that can't be used. It is asked once more where the token is refused and another one is found."""
        answer, sent = self._exchange(target, params, body, headers or {}, timeout_s, answer_bytes_max)
        if answer.status != UNAUTHENTICATED:
            return answer
        note = self.credentials.refused(self.address, sent, answer.body)
        if note is not None:
            return answer._replace(note=note)
        return self._exchange(target, params, body, headers or {}, timeout_s, answer_bytes_max)[0]

    def _exchange(
        self,
        target: Target,
        params: Params | None,
        body: bytes | None,
        headers: Mapping[str, str],
        timeout_s: float,
        answer_bytes_max: int | None,
    ) -> tuple[Answer, Mapping[str, str]]:
        """The answer, and which token the request had."""
        path = f"{self._prefix}{target.path}?{urlencode(params)}" if params else f"{self._prefix}{target.path}"
        token = self.credentials.headers(self.address)  # first: it may have to be found, for newer connections alone
        connection, opened_s = self._connect(timeout_s)
        try:
            connection.request(target.method, path, body, {**_HEADERS, **token, **headers})
            response = connection.getresponse()
            content = response.read() if answer_bytes_max is None else _read(response, answer_bytes_max)
            answer = Answer(response.status, response.headers, content)  # pyright: ignore[reportArgumentType]
        except (OSError, HTTPException) as error:
            connection.close()
            raise NoAnswer(_reason(error), sent=True) from error
        except ValueError as error:
            connection.close()
            raise InvalidRequest(f"this can't be sent: {error}") from None
        except BaseException:
            connection.close()  # who stopped waiting left an answer in it
            raise
        if not response.will_close and len(self._idle) < IDLE_MAX:
            self._idle.append((connection, opened_s))
        else:
            connection.close()
        return answer, token

    def has_ended(self) -> bool:
        """Whether the other side has closed a connection that is kept: its process has ended, maybe."""
        return any(each.sock is None or _has_ended(each.sock) for each, _ in list(self._idle))

    def close(self) -> None:
        """Close the connections. What is asked then opens new ones."""
        while self._idle:
            self._idle.pop()[0].close()

    def _connect(self, timeout_s: float) -> tuple[HTTPConnection, float]:
        while True:
            try:
                connection, opened_s = self._idle.pop()
            except IndexError:
                break
            is_fit = self.credentials.may_have(self.address, opened_s)
            if is_fit and connection.sock is not None and not _has_ended(connection.sock):
                connection.sock.settimeout(timeout_s)
                return connection, opened_s
            connection.close()
        connection = self._new(min(CONNECT_TIMEOUT_S, timeout_s))
        try:
            self.credentials.check(self.address)
            opened_s = time.monotonic()
            connection.connect()
        except OSError as error:
            connection.close()
            refusal = NotTrusted(f"{self.address}: {explain(error)}") if is_refusal(error) else None
            raise NoAnswer(_reason(error), sent=False, refusal=refusal) from error
        connection.sock.settimeout(timeout_s)
        return connection, opened_s

    def _new(self, timeout_s: float) -> HTTPConnection:
        if not self._by_tls:
            return HTTPConnection(self._host, self._port, timeout=timeout_s)
        return HTTPSConnection(self._host, self._port, timeout=timeout_s, context=client_context(self.trust))


def _has_ended(connection: socket.socket) -> bool:
    """Whether the gateway closed it meanwhile: nothing else is to be read from one that is idle."""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))


def _read(response: HTTPResponse, bytes_max: int) -> bytes:
    content = response.read(bytes_max + 1)
    if len(content) > bytes_max:
        raise HTTPException(f"the answer has more than {bytes_max} bytes")
    return content


def _reason(error: Exception) -> str:
    return explain(error)
