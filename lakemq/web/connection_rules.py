"""What the connections of one server may take together, and what they have taken."""

from __future__ import annotations

import time

from lakemq.model.forwarded import Proxies
from lakemq.settings import Listener
from lakemq.web.counters import WebCounters
from lakemq.web.places import Places
from lakemq.web.problems import Headers
from lakemq.web.turns import Ahead, Turns
from lakemq.web.watch import Unsent, Uploads

AHEAD_BYTES_MAX = 64 * 1024 * 1024
"""Of requests that were sent ahead, all together."""


class ConnectionRules:
    """What the connections of one server may take, and what they have taken."""

    def __init__(self, limits: Listener, counters: WebCounters) -> None:
        self.counters = counters
        self.places = places = Places(limits.connections_max, limits.connections_per_client_max)
        counters.connections = lambda: places.connections
        self.proxies = Proxies(limits.trusted_proxies) if limits.trusted_proxies else None
        self.unsent = unsent = Unsent(limits.answer_bytes_max, limits.client_share)
        counters.unsent_bytes = lambda: unsent.bytes
        self.turns = Turns(time.monotonic)
        self.ahead = ahead = Ahead(AHEAD_BYTES_MAX)
        counters.ahead_bytes = lambda: ahead.bytes
        # The other half is for those that are whole, and being worked on.
        bytes_max = max(limits.request_bytes_in_flight_max // 2, limits.request_bytes_max)
        self.uploads = Uploads(bytes_max, limits.request_bytes_max, limits.client_share, time.monotonic)

    def client_behind(self, proxy: str, headers: Headers) -> tuple[str, int]:
        """Whose request it is that this proxy, one of those that are believed, has passed on; of its port nothing is
        known."""
        said = [value for name, value in headers if name == b"x-forwarded-for"]
        return proxy if self.proxies is None else self.proxies.client_behind(proxy, said), 0
