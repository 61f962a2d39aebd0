"""The HTTP connection: uvicorn's protocol, with everything it reads bounded and every error a problem."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import httptools

from lakemq.web import bounds
from lakemq.web.asgi import Scope, refuse
from lakemq.web.bounds import HEAD_BYTES_MAX, NEARLY_ALL, PIECE_BYTES
from lakemq.web.connection_rules import ConnectionRules
from lakemq.web.cycle import Cycle
from lakemq.web.gone import put_gone
from lakemq.web.guard import Guard
from lakemq.web.known_head import KnownHead, known_head
from lakemq.web.other_protocols import NO_TUNNEL, Deaf, head_without_upgrade
from lakemq.web.places import TOLD_S, Place
from lakemq.web.problems import Answer, make_problem, to_bytes
from lakemq.web.quick_cycle import Quick, QuickCycle, Repeated, Wanted
from lakemq.web.scope import make_scope
from lakemq.web.seat import Seat
from lakemq.web.turns import Flow, Unread
from lakemq.web.watch import Phase
from lakemq.web.watched_connection import WatchedConnection

_IDLE, _HEAD, _BODY, _SERVED = Phase  # a member of an enum is looked up slowly, and each request needs three


class Connection(WatchedConnection):
    """One connection. `make_connection_class` says how many there may be."""

    quick: Quick | None
    guard: Guard
    tells = True  # why it is refused

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.seat = Seat()
        self._bytes_since_body = 0
        self._begun = self._upgrading = self._whole = self._refused = False
        self._place = Place.NONE
        self._told_until: asyncio.TimerHandle | None = None
        self._held: list[bytes] | None = None
        self._came: bytes | None = None
        self._repeated: Repeated | None = None
        self._known: KnownHead | None = None
        self._body_bytes = 0

    # Life ------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = self._flow = Flow(transport)
        rules = self.rules
        self.client_address = self._peer = peer = self.client[0] if self.client else None
        self._is_proxy = rules.proxies is not None and peer is not None and peer in rules.proxies
        refusal = rules.places.refusal(peer)
        self._place = rules.places.take(peer, refused=refusal is not None, tells=self.tells)
        if refusal is not None:
            self._refuse_all(refusal)

    def _refuse_all(self, detail: str) -> None:
        """Refuse what will be asked, soon, or the connection where too many wait for that."""
        self._refused = True
        if self._place is Place.NONE:
            self.rules.counters.problem("busy")
            self.transport.abort()
            return
        problem = make_problem("busy", detail, [(b"connection", b"close")])
        self.app = refuse(problem)  # pyright: ignore[reportAttributeAccessIssue]
        self._told_until = self.loop.call_later(TOLD_S, self.cut)

    def data_received(self, data: bytes) -> None:
        self.received_bytes += len(data)
        if len(data) > PIECE_BYTES or self._unread or self._bytes_since_body > NEARLY_ALL:
            self._unread.add(data)
            self._read_on()
            return
        repeated = self._repeated
        if repeated is not None and len(data) == repeated.bytes and self._serve_again(data, repeated):
            return
        if self._known is not None and self._is_between and self._take_again(data, self._known):
            return
        self._came = data if self._is_between else None
        self._parse(data)
        self._came = None
        if self._held is not None:  # the rest of the body is still to come
            self._go_the_long_way()
        if self.pipeline:
            self._wait_for_turn()

    @property
    def _is_between(self) -> bool:
        """Whether what comes next begins a request, after others, and none is being served."""
        cycle = self.cycle
        return self._whole and bool(cycle) and cycle.response_complete and not self.pipeline

    def _serve_again(self, data: bytes, repeated: Repeated) -> bool:
        """Serve the request when its head is that of the last quick one; False when it has to be parsed."""
        head, _, wanted = repeated
        if not data.startswith(head) or not self._is_between or self.flow.write_paused:
            return False
        if not self._serve_quickly(wanted, data[len(head) :]):
            return False
        self._number += 1
        return True

    def _take_again(self, data: bytes, known: KnownHead) -> bool:
        """Take the request in when its head is, but for the query, that of the last one; False when it has to be
        parsed."""
        query = known.query_of(data)
        if query is None:
            return False
        self._whole = self.expect_100_continue = False
        self.url, self.headers = known.url + query, known.headers
        self._bytes_since_body = self._body_bytes = 0
        self._number += 1
        self._phase = _BODY
        self._begin({**known.scope, "query_string": query, "state": self.app_state.copy()}, True)
        if known.body_bytes:
            self.on_body(data[-known.body_bytes :])
        self.on_message_complete()
        return True

    def _serve_quickly(self, wanted: Wanted, body: bytes) -> bool:
        """Serve the request without ASGI; False when it has to go the long way."""
        cycle = QuickCycle(self)
        if self.quick is None or not self.quick.serve(cycle, wanted, body):
            return False
        self._begun = True
        self.cycle = cycle  # pyright: ignore[reportAttributeAccessIssue]  pipelined requests wait for it
        self._running = cycle
        return True

    def _remember(self, wanted: Wanted, body: bytes) -> None:
        """The quick request that was just served came as `_came`. Its head is remembered if nothing else did, and if it
        may come again."""
        came = self._came
        if came is None or not wanted.may_come_again:
            return
        size = came.find(b"\r\n\r\n") + 4
        self._repeated = Repeated(came[:size], len(came), wanted) if size + len(body) == len(came) else None

    def _read_on(self) -> None:
        """Take in what has come, up to the first whole request: what follows is ahead of its turn."""
        if self._flow.full:
            self._flow.full = False
            self.flow.resume_reading()
        while self._unread and not self.transport.is_closing():
            within = self._phase is _BODY or self._phase is _HEAD
            if not within and self.cycle and not self.cycle.response_complete:
                break
            self._parse(self._unread.take(self._next_piece()))
        if self._held is not None and not self._unread:
            self._go_the_long_way()
        self._wait_for_turn()

    def _next_piece(self) -> int:
        """How much of what came is a head, or is left of a body: more may be any number of requests."""
        if self._phase is not _BODY:
            room = HEAD_BYTES_MAX - self._bytes_since_body if self._phase is _HEAD else HEAD_BYTES_MAX
            # A head that may be taken ends where a piece does: so what is counted is the head, and nothing after it.
            return self._unread.head_bytes(room) or (min(room, PIECE_BYTES) if room > 0 else PIECE_BYTES)
        for name, value in self.headers:
            if name == b"content-length":  # the parser has found it to be a number
                return max(int(value) - self._body_bytes, 1)
        return PIECE_BYTES

    def _wait_for_turn(self) -> None:
        """Read no more while much waits for others' answers. Some is read: only so is it seen that the client goes."""
        if self.transport.is_closing():
            return
        size = len(self._unread) + len(self.pipeline) * bounds.PARSED_BYTES
        was_full, self._flow.full = self._flow.full, size > bounds.AHEAD_BYTES_MAX
        if self._flow.full:
            self.flow.pause_reading()
        elif was_full:
            self.flow.resume_reading()
        self.rules.ahead.set(self, size)

    def go_on(self) -> None:
        """Begin the next request that was sent ahead, or take it in."""
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
            self._wait_for_turn()
        else:
            self._read_on()

    def _parse(self, data: bytes | memoryview) -> None:
        self._bytes_since_body += len(data)
        if self._phase is not _BODY:
            self._phase = _HEAD
        try:
            self._feed(data)
        except httptools.HttpParserError:
            self.send_400_response("this is no HTTP/1.1 request")
            return
        if self._bytes_since_body > HEAD_BYTES_MAX and not self.transport.is_closing():
            self.send_400_response(bounds.TOO_LONG)

    def _feed(self, data: bytes | memoryview) -> None:
        while data:  # an empty feed would mean the end of the stream
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                if not self._upgrading:
                    self.parser = cast("Any", Deaf())
                    return
                # The parser would take nothing any more, and it has passed over the request's body.
                parser = self.parser
                head = head_without_upgrade(parser.get_method(), self.url, parser.get_http_version(), self.headers)
                self._came = None
                data = head + data[upgrade.args[0] :]
                self._upgrading = False
                self.parser = httptools.HttpRequestParser(self)
            else:
                return

    def on_message_begin(self) -> None:
        self._whole = False
        self.url = b""
        self.expect_100_continue = False
        self.headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if self._phase is _BODY:
            self._pass_over_trailer(name)
            return
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def _pass_over_trailer(self, name: bytes) -> None:
        """It comes when what headers decide has been decided, and a proxy may have looked at those alone. But the
        parser may take it to be the last of the connection."""
        if name == b"connection":
            if self._held is not None:
                self._go_the_long_way()
            self.cycle.keep_alive = False

    def on_headers_complete(self) -> None:
        is_too_long = self._bytes_since_body > HEAD_BYTES_MAX
        self._bytes_since_body = self._body_bytes = 0
        self._number += 1
        self._phase = _BODY
        parser = self.parser
        if parser.should_upgrade():
            if parser.get_method() == b"CONNECT":
                self._refuse_one(NO_TUNNEL)
                return
            # What is remembered of a request is its cycle's, and this one has none before it is parsed once more.
            self._upgrading, self._came = True, None
            return
        if self._is_proxy:
            self.client = self.rules.client_behind(self._peer or "", self.headers)
            self.client_address = self.client[0]
        method, version = parser.get_method(), parser.get_http_version()
        problem = self.guard.problem(method, self.url, self.headers, version == "1.0", self.server)
        if problem is not None:
            self._refuse_one(problem)
        elif is_too_long:
            self._refuse_one(make_problem("invalid_request", bounds.TOO_LONG, [(b"connection", b"close")]))
        elif self.quick is not None and method == b"POST" and version == "1.1" and self._may_be_quick():
            self._held = []
        else:
            self._begin_asgi()

    def _begin_asgi(self) -> None:
        """Give the request to the application. Only now is there a scope."""
        scope = make_scope(self)  # pyright: ignore[reportArgumentType]  uvicorn's own types
        self._begin(scope, scope["http_version"] != "1.0" and self.parser.should_keep_alive())

    def _begin(self, scope: Scope, keep_alive: bool) -> None:
        before = self.cycle
        self.cycle = cycle = Cycle(
            put_gone(scope, self.flow),
            scope,
            self.transport,
            self.flow,
            self.logger,
            self.server_state.default_headers,
            expect_100_continue=self.expect_100_continue,
            keep_alive=keep_alive,
            on_response=self.on_response_complete,
        )
        self._begun = True
        if not before or before.response_complete:
            self._start_asgi_task(cycle, self.app)
        else:
            self.pipeline.appendleft((cycle, self.app))  # pyright: ignore[reportArgumentType]  uvicorn's own types

    def _refuse_one(self, problem: Answer) -> None:
        """Answer this request with a problem, whatever its body is, when it is its turn."""
        self._came = None
        app, self.app = self.app, refuse(problem)  # pyright: ignore[reportAttributeAccessIssue]
        try:
            self._begin_asgi()
        finally:
            self.app = app

    def _may_be_quick(self) -> bool:
        cycle = self.cycle
        return (
            (not cycle or cycle.response_complete)
            and self.parser.should_keep_alive()
            and not self.flow.write_paused
            and not self.expect_100_continue
            and not self._refused
        )

    def _go_the_long_way(self) -> None:
        """Give the request that was held back to the application."""
        held, self._held = self._held, None
        self._begin_asgi()
        for piece in held or ():
            self._take(piece)

    def on_message_complete(self) -> None:
        self._whole = True
        self._phase = _SERVED
        held = self._held
        if held is not None:
            body = held[0] if len(held) == 1 else b"".join(held)
            wanted = None if self.quick is None else self.quick.look(self.url, self.headers, self.client_address)
            if wanted is not None and self._serve_quickly(wanted, body):
                self._held = None
                self._remember(wanted, body)
                return
            if wanted is not None:
                self._came = None
            self._go_the_long_way()
        if not self._upgrading:
            self._end_upload()
            super().on_message_complete()
        self._get_to_know()

    def _get_to_know(self) -> None:
        """The request that came as `_came` is the application's, which hasn't begun with it."""
        came, cycle = self._came, self.cycle
        if came is not None and cycle.keep_alive and not self.expect_100_continue:
            self._known = known_head(came, self._body_bytes, self.url, self.headers, dict(cycle.scope))

    def on_body(self, body: bytes) -> None:
        self._bytes_since_body = 0
        self._body_bytes += len(body)
        if self._held is not None:
            self._held.append(body)
        else:
            self._take(body)

    def _take(self, body: bytes) -> None:
        if self._whole or self._upgrading or self.cycle.response_complete:  # what is whole is not on its way any more
            super().on_body(body)
            return
        self._uploading = True
        if self.rules.uploads.add(self, len(body)):
            super().on_body(body)
        else:
            self._give_up("busy", bounds.TOO_MANY_BYTES)

    def on_response_complete(self) -> None:
        """Go on with what has come meanwhile. How long a connection may be idle is the watch's matter."""
        self.server_state.total_requests += 1
        self._end_upload()
        if self.transport.is_closing():
            return
        if self.pipeline or self._unread:
            self.rules.turns.add(self)
        else:
            self.flow.resume_reading()

    def send_400_response(self, msg: str) -> None:
        cycle = self.cycle
        if self._begun and not cycle.response_complete and (cycle.response_started or not cycle.more_body):
            # The bad bytes follow a request that is still being answered: this answer is the last.
            cycle.keep_alive = False
            return
        if not self.pipeline:
            self.transport.write(to_bytes(make_problem("invalid_request", msg), close=True))
        self.transport.close()
        self._leave()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.seat.close()
        rules, peer = self.rules, self._peer
        rules.unsent.remove(self)
        self._end_upload()
        rules.ahead.set(self, 0)
        rules.turns.remove(self)
        self._unread = Unread()
        rules.places.leave(peer, self._place)
        if self._told_until is not None:
            self._told_until.cancel()
        self._leave()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)


def make_connection_class(rules: ConnectionRules, guard: Guard, quick: Quick | None = None) -> type[Connection]:
    """The protocol of one server. `quick`: serves some requests without ASGI."""
    return type("RuledConnection", (Connection,), {"rules": rules, "quick": quick, "guard": guard})
