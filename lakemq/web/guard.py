"""Who a request says it is for, which page it comes from, and how its body comes: looked at where a connection is read.

A browser sends what any page tells it to, to whatever listens on its machine. A page of another site
is told by `Origin`, or by `Sec-Fetch-Site` where that is missing; one that has made its own name point
to this machine (DNS rebinding) is told by `Host`, which then is not one of the gateway's names.
"""

from __future__ import annotations

import ipaddress
import re

import httptools

from lakemq.settings import Listener
from lakemq.web.problems import Answer, Headers, make_problem

_LOOKED_AT = frozenset({b"host", b"origin", b"sec-fetch-site", b"sec-fetch-mode", b"transfer-encoding"})
_OWN_SITE = (b"same-origin", b"none")
_SHOWN_MAX = 100
_NAMES = ("127.0.0.1", "localhost", "[::1]")
_LOOPBACK = re.compile(rb"(?:127\.0\.0\.1|localhost|\[::1\]):[0-9]{1,5}")
"""Such a name with any port: this machine's, from which a port is forwarded here. No name service is asked about
these, so nobody can make a page of theirs have one; other pages of this machine are told by `Origin`."""


class Guard:
    """The names and origins of one server, whose settings are the section of that name."""

    def __init__(self, section: str, listener: Listener, port: int) -> None:
        """`port`: what it listens on, where the setting leaves that to the system."""
        self._section, self._port = section, port
        hosts = _with_port([*_NAMES, _bracketed(listener.host)], port)
        for host in listener.names:
            hosts |= {host} if _has_port(host) else _with_port([host], port)
        self._hosts = frozenset(host.lower().encode() for host in hosts)
        self._origins = frozenset(origin.lower().encode() for origin in listener.origins)

    def problem(
        self, method: bytes, url: bytes, headers: Headers, is_old: bool, address: tuple[str, int | None] | None
    ) -> Answer | None:
        """Why the request is refused; None: it isn't. `is_old`: of HTTP/1.0, which has no `Transfer-Encoding`, and may
        have no `Host`.
        `address`: where its connection came to, whose address is a name of the gateway's too."""
        host = None
        seen: dict[bytes, bytes] | None = None
        for name, value in headers:
            if name in _LOOKED_AT:
                if name == b"host" and host is None:
                    host = value
                    continue
                seen = {} if seen is None else seen
                if name == b"host" or name in seen:
                    return make_problem("invalid_request", f"there are two headers {name.decode()}")
                seen[name] = value
        if host is None:
            if not is_old:
                return make_problem("invalid_request", "a request says which Host it is for")
        elif host not in self._hosts and not self._is_ours(host, address):
            return self._wrong_host(host)
        if url[:1] != b"/" and (problem := self._whole_url(url, address)):
            return problem
        return _wrong_coding(seen, is_old) or self._foreign(method, host, seen) if seen else None

    def _is_ours(self, host: bytes, address: tuple[str, int | None] | None) -> bool:
        host = host.strip().lower()
        if host in self._hosts or _LOOPBACK.fullmatch(host):
            return True
        own = None if address is None else _bracketed(address[0]).encode()
        return own is not None and host in (own, b"%b:%d" % (own, self._port))

    def _whole_url(self, url: bytes, address: tuple[str, int | None] | None) -> Answer | None:
        """A request may name the whole URL, and then that counts, not `Host`."""
        try:
            parsed = httptools.parse_url(url)
        except httptools.HttpParserInvalidURLError:
            return None  # whoever answers it says so
        if not parsed.host:
            return None
        host = parsed.host if b":" not in parsed.host else b"[%b]" % parsed.host
        host += b":%d" % parsed.port if parsed.port else b""
        return None if self._is_ours(host, address) else self._wrong_host(host)

    def _foreign(self, method: bytes, host: bytes | None, seen: dict[bytes, bytes]) -> Answer | None:
        origin = seen.get(b"origin")
        if origin is not None:
            origin = origin.strip().lower()
            own = host is not None and origin in (b"http://" + host.lower(), b"https://" + host.lower())
            return None if own or origin in self._origins else self._wrong_origin(origin)
        if seen.get(b"sec-fetch-site", b"none") in _OWN_SITE:
            return None
        # Somebody who follows a link sees the answer, and the page with the link doesn't.
        if method in (b"GET", b"HEAD") and seen.get(b"sec-fetch-mode") == b"navigate":
            return None
        return self._wrong_origin(b"another site")

    def _wrong_host(self, host: bytes) -> Answer:
        shown, section = host[:_SHOWN_MAX].decode("latin-1"), self._section
        return make_problem("wrong_host", f"this {section} is not {shown!r}; {section}.hosts adds to its names")

    def _wrong_origin(self, origin: bytes) -> Answer:
        shown, section = origin[:_SHOWN_MAX].decode("latin-1"), self._section
        detail = f"pages of {shown!r} may not use this {section}; {section}.origins lists the sites that may"
        return make_problem("wrong_origin", detail)


def _wrong_coding(seen: dict[bytes, bytes], is_old: bool) -> Answer | None:
    """The parser takes any codings of which chunks are the last, and leaves the others as they are in the body. It
    takes them in HTTP/1.0 too, where a proxy that doesn't know them sees another end of the request (RFC 9112, 6.1)."""
    coding = seen.get(b"transfer-encoding")
    if coding is None or (coding.strip().lower() == b"chunked" and not is_old):
        return None
    detail = "a body comes as it is or, from HTTP/1.1 on, in chunks; no other Transfer-Encoding is taken"
    return make_problem("invalid_request", detail, [(b"connection", b"close")])


def _bracketed(host: str) -> str:
    try:
        return f"[{host}]" if ipaddress.ip_address(host).version == 6 else host
    except ValueError:
        return host


def _with_port(names: list[str], port: int) -> set[str]:
    return {*names, *(f"{name}:{port}" for name in names)}


def _has_port(host: str) -> bool:
    return host.rpartition(":")[2].isdigit() and not host.endswith("]")
