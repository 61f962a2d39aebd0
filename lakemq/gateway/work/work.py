"""What all requests share: threads for what takes long, who waits, what was done."""

from __future__ import annotations

from lakemq.gateway.work.counters import Counters
from lakemq.gateway.work.loop_lag import LoopLag
from lakemq.gateway.work.waiters import Waiters
from lakemq.gateway.work.workshop import WAITING_MAX, Workshop
from lakemq.settings import Gateway
from lakemq.traces.spans import Spans
from lakemq.web.gate import Gate


class Work:
    """Of one broker, within `limits`. `spans`: where those go of what is recorded; None: nothing is."""

    def __init__(
        self,
        limits: Gateway,
        counters: Counters | None = None,
        loop_lag: LoopLag | None = None,
        spans: Spans | None = None,
    ) -> None:
        self.limits = limits
        in_work = max(limits.request_bytes_in_flight_max // 2, limits.request_bytes_max)
        self.decoding = Workshop("decode", in_work, limits.client_share)
        self.answering = Workshop("answer", in_work, limits.client_share)
        self.listing = Gate(1, WAITING_MAX, limits.client_share)
        self.matching = Gate(1, WAITING_MAX, limits.client_share)
        self.waiters = Waiters(limits.waiters_max, limits.client_share)
        self.counters = counters or Counters()
        self.loop_lag = loop_lag or LoopLag()
        self.spans = spans
        self.leaving = False
        """The process was asked to stop: it isn't ready, and serves those who don't know that yet."""

    def renewed(self) -> Work:
        """That of the broker that takes this one's place in the process: it counts on."""
        made = Work(self.limits, self.counters, self.loop_lag, self.spans)
        made.leaving = self.leaving
        return made

    def close(self) -> None:
        """Give the threads back."""
        self.decoding.close()
        self.answering.close()
