"""The options of an application."""

from __future__ import annotations

from lakemq.client.bodies.encoder import Encoder
from lakemq.client.consume.push_options import PushOptions
from lakemq.client.durations import Seconds


class AppOptions(PushOptions, total=False):
    """Options of applications, with asyncio and without: those of `PushOptions`, which all their consumers have, but
    `max_reconsume_times`, which is called `retries` here; and these."""

    retries: int
    """How often a message that failed comes again before it is a dead letter, where its listener doesn't say; default
    16."""
    stop_timeout_s: Seconds
    """How long the calls that are under way have when the application stops; default 30. What isn't done by then
    comes again."""
    encoder: Encoder
    """As the producer's."""
