"""The HTTP connection, as far as it is watched: what it is at, what it holds, and how it is closed."""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from lakemq.web.asgi import Client
from lakemq.web.connection_rules import ConnectionRules
from lakemq.web.cycle import Cycle
from lakemq.web.hung_up import has_hung_up
from lakemq.web.problems import make_problem, to_bytes
from lakemq.web.turns import Flow, Unread
from lakemq.web.watch import Phase

_IDLE, _BODY, _SERVED = Phase.IDLE, Phase.BODY, Phase.SERVED


class WatchedConnection(HttpToolsProtocol):
    """As `watch.Watched` says. Who reads it sets what it is at."""

    rules: ConnectionRules
    _flow: Flow
    client_address: Client

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._number = 0
        self._phase = _IDLE
        self._running: Any = None
        self._uploading = False
        self._unread = Unread()
        self.received_bytes = 0
        self.seen: tuple[int, Phase] = (0, _IDLE)
        self.seen_s = self.unsent_s = self.loop.time()
        self.seen_bytes = self.unsent_bytes = 0

    @property
    def at(self) -> tuple[int, Phase]:
        phase = self._phase
        if phase is _SERVED and not self.pipeline and (not self.cycle or self.cycle.response_complete):
            phase = _IDLE
        return self._number, phase

    @property
    def held_up(self) -> bool:
        return self.flow.read_paused or bool(self.pipeline) or bool(self._unread)

    def unsent(self) -> int:
        return self.transport.get_write_buffer_size() if self.flow.write_paused else 0

    def close_idle(self) -> None:
        self.transport.close()

    def close_left(self) -> None:
        running = self._running
        if not self._flow.full or not isinstance(running, Cycle) or not running.ends_with_client:
            return
        if not running.response_complete and has_hung_up(self.transport):
            self.transport.close()
            self._leave()

    def time_out(self, detail: str) -> None:
        self._give_up("request_too_slow", detail)

    def cut(self) -> None:
        self.rules.counters.cut += 1
        self.rules.unsent.remove(self)
        self.transport.abort()
        self._leave()

    def _give_up(self, code: str, detail: str) -> None:
        """Answer the request that is still coming, if it is its turn, and close."""
        cycle = self.cycle
        within = self._phase is _BODY
        unanswered = not cycle.response_started if within else not cycle or cycle.response_complete
        if unanswered and not self.pipeline:
            self.transport.write(to_bytes(make_problem(code, detail), close=True))
        if cycle:
            cycle.disconnected = True
            cycle.message_event.set()
        self.rules.counters.problem(code)
        self.rules.counters.cut += 1
        self._end_upload()
        self.transport.close()
        self._leave()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.rules.unsent.add(self, self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        super().resume_writing()
        self.rules.unsent.remove(self)

    def _end_upload(self) -> None:
        if self._uploading:
            self._uploading = False
            self.rules.uploads.remove(self)

    def _leave(self) -> None:
        """Let the request that is being served know that nobody reads its answer: uvicorn tells only
        the newest one, which may still wait for its turn, and the other would write all the same."""
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()
