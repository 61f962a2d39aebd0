"""The options of an application."""

from __future__ import annotations

from lakemq.client.bodies.encoder import Encoder
from lakemq.client.consume.push_options import PushOptions
from lakemq.client.durations import Seconds


class AppOptions(PushOptions, total=False):
    """Options of applications, with asyncio and without: those of `PushOptions`, for all consumers of the application,
    except `max_reconsume_times`, which is called `retries` here; and these."""

    retries: int
    """How often a failed message is delivered again before it becomes a dead letter, unless its listener says
    otherwise; default 16."""
    stop_timeout_s: Seconds
    """How long running calls may take when the application stops; default 30. Messages that aren't finished by then are
    delivered again."""
    encoder: Encoder
    """As the producer's."""
