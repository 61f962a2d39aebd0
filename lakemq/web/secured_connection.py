"""The HTTP connection by TLS. Its handshake is a part of its first head: it may take no longer."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from lakemq.web.handshakes import Handshakes
from lakemq.web.protocol import Connection
from lakemq.web.secured import Secured
from lakemq.web.tls import Tls
from lakemq.web.watch import Phase

_HANDSHAKE = (-1, Phase.HEAD)


class SecuredConnection(Connection):
    """As it is watched: until it is secured it is at the head of something."""

    secured: Secured
    tells = False
    """Nothing can be said before a handshake, and that takes more of what there isn't."""

    @property
    def at(self) -> tuple[int, Phase]:
        return super().at if self.secured.ready else _HANDSHAKE

    def time_out(self, detail: str) -> None:
        if self.secured.ready:
            super().time_out(detail)
            return
        self.rules.counters.problem("request_too_slow")
        self.cut()


def secure(connection_class: type[Connection], tls: Tls) -> Callable[..., Secured]:
    """What makes the protocol of a connection: of that class, by TLS."""
    secured_class = type("RuledSecuredConnection", (SecuredConnection, connection_class), {})
    handshakes = Handshakes(connection_class.rules.counters, time.monotonic)

    def make(*arguments: Any, **named: Any) -> Secured:
        connection = secured_class(*arguments, **named)
        connection.secured = secured = Secured(connection, tls.context, handshakes)
        return secured

    return make
