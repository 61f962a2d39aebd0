"""What the gateway has done, as plain numbers: the hot path only adds to them."""

from __future__ import annotations

from dataclasses import dataclass

from lakemq.model.traffic import Traffic
from lakemq.web.counters import WebCounters


@dataclass(slots=True)
class Counters(WebCounters):
    """Totals since the process began. Bytes are of bodies in requests, of answers in pulls and receives."""

    messages_in: int = 0
    bytes_in: int = 0
    messages_out: int = 0
    bytes_out: int = 0
    messages_expired: int = 0

    def gave(self, messages: int, size: int, traffic: Traffic | None) -> None:
        """Count messages that were answered in so many bytes, also as their topic's; None: it is gone."""
        self.messages_out += messages
        self.bytes_out += size
        if traffic is not None:
            traffic.messages_out += messages
            traffic.bytes_out += size

    def took(self, messages: int, size: int, traffic: Traffic | None) -> None:
        """Count messages whose bodies have so many bytes, also as their topic's; None: it is gone."""
        self.messages_in += messages
        self.bytes_in += size
        if traffic is not None:
            traffic.messages_in += messages
            traffic.bytes_in += size
