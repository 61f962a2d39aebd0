"""The options of push consumers."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, get_args

from lakemq.client.bodies.decoder import Decoder
from lakemq.client.consume.filtered import Filter
from lakemq.client.consume.gaps import OnGap
from lakemq.client.consume.listener import Outcome, Span, Terms
from lakemq.client.consume.member import MemberOptions, Model
from lakemq.client.consume.process_queue import Limits, Work
from lakemq.client.consume.push_engine import Invoke, Processing, PushEngine
from lakemq.client.consume.reason import Reasons
from lakemq.client.consume.subscription import ConsumeFrom
from lakemq.client.durations import Seconds, to_seconds
from lakemq.client.route_source import RouteSource
from lakemq.client.view import MessageView
from lakemq.model.errors import InvalidRequest
from lakemq.model.rebalance import Strategy

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

CONCURRENCY = 20
BATCH_SIZE = 32
CONSUME_TIMEOUT_S = 900.0
"""As in RocketMQ."""


class PushOptions(TypedDict, total=False):
    """Options of push consumers, with asyncio and without."""

    brokers: str | Sequence[str] | None
    """Addresses. Without them and `nameservers` those of the environment's LAKEMQ_NAMESERVERS, else of its
    LAKEMQ_BROKER, else this machine's port 8080."""
    nameservers: str | Sequence[str] | None
    """Addresses of name servers, which know the brokers, in the place of `brokers`."""
    routes: RouteSource | None
    """Where routes come from instead."""
    token: str | None
    """By which the client says who it is. Without one it is that of the environment, LAKEMQ_TOKEN or the file that
    LAKEMQ_TOKEN_FILE names, else that of this machine's administrator, where it is found."""
    model: Model
    """`clustering` (default): each message goes to one member. `broadcasting`: to every one; offsets
    are in a file then, and a message that fails does not come again."""
    orderly: bool
    """Each queue's messages one after the other, at one member at a time: the queue is locked at its
    broker. A message that fails is tried again in place, and holds up its queue. Default False."""
    consume_from: ConsumeFrom
    """Where a group begins that has consumed nothing yet: `last` (default), `first`, or at a time."""
    concurrency: int
    """So many calls of the listener at a time; default 20."""
    batch_size: int
    """So many messages at most for one call of a batch listener; default 32."""
    max_reconsume_times: int | None
    """After so many retries a message goes to the group's dead letters. Default: as the broker is set
    (16); an orderly consumer tries without end."""
    filter: Filter | None
    """A function of a message: the listener is called only if it is true. Other messages count as consumed. It runs in
    the client, so every message is transferred; `tags` and `sql` filter at the broker. What it raises is an error of
    the listener."""
    decoder: Decoder
    """What `message.decode(kind)` reads bodies by. Without one they are JSON."""
    reasons: Reasons
    """What the broker is told of an error that the listener raises, and keeps with the message: `full` (default) its
    class and its text, which may hold what nobody else should see; `class`; or `none`."""
    suspend_s: Seconds
    """How long an orderly consumer waits before it tries a message again; default 1."""
    consume_timeout_s: Seconds | None
    """A call of the listener that takes longer has its message, or its batch, sent back to come again later, and others
    go on; what it answers after all is ignored. With asyncio it is cancelled. A thread can't be: it goes on, and takes
    the place of one of `concurrency` until it returns. Default 900; None: never. An orderly consumer has none, as
    nothing may pass the message."""
    limits: Limits
    """How much of each queue is held here; default 1,000 messages, 100 MiB, a span of 2,000."""
    strategy: str | Strategy
    """How queues are shared out: `averagely` (default), `averagely_by_circle`, `consistent_hash`, or a
    function such as `by_configuration(…)` and `by_machine_room(…)` make. The same in all members."""
    client_id: str | None
    """This member's name, different from all others'. By default one that nobody has."""
    offset_file: str | os.PathLike[str] | None
    """Where broadcasting keeps its offsets; by default `~/.lakemq/offsets/{group}/{client_id}.json`. Without
    a `client_id` it is the first file there that no running consumer uses: one that is started again
    finds its own, of several each finds one of theirs. Of two with the same file the second isn't started."""
    on_gap: OnGap | None
    """Called with queue, offset and next offset, once for each stretch of offsets that is passed and holds no
    message any more: erased, dropped, or lost with a log's tail. It runs where the client works, so it must be
    quick and wait for nothing. A warning is logged in any case."""
    tracing: bool | TracerProvider
    """A span for each call of the listener, by the process's OpenTelemetry provider, or another."""


def make_engine(group: str, invoke: Invoke, batch: bool, cancels: bool, options: PushOptions) -> PushEngine:
    """`cancels`: whether a call of the listener can be cancelled. Raises `InvalidRequest` and `ValueError` for options
    that don't fit, and `TypeError` for others."""
    own: dict[str, Any] = dict(options)
    tracing = own.pop("tracing", False)
    decoder = own.pop("decoder", None)
    batch_size = own.pop("batch_size", BATCH_SIZE)
    given_s = own.pop("consume_timeout_s", None if own.get("orderly") else CONSUME_TIMEOUT_S)
    timeout_s = None if given_s is None else to_seconds(given_s, "consume_timeout_s")
    if timeout_s is not None and (own.get("orderly") or not timeout_s > 0):
        raise InvalidRequest("consume_timeout_s is more than 0, and an orderly consumer has none")
    processing = Processing(
        invoke=invoke if decoder is None else _decoding(invoke, decoder),
        cancels=cancels,
        consume_timeout_s=timeout_s,
        concurrency=own.pop("concurrency", CONCURRENCY),
        take_max=batch_size if batch else None,
        orderly=own.pop("orderly", False),
        max_reconsume_times=own.pop("max_reconsume_times", None),
        suspend_s=to_seconds(own.pop("suspend_s", 1.0), "suspend_s"),
        limits=own.pop("limits", Limits()),
        span=span_of(tracing, group),
        reasons=own.pop("reasons", "full"),
    )
    if processing.reasons not in get_args(Reasons):
        raise InvalidRequest(f"reasons is one of {', '.join(get_args(Reasons))}")
    if processing.concurrency < 1 or batch_size < 1:
        raise InvalidRequest("concurrency and batch_size are at least 1")
    if (processing.max_reconsume_times or 0) < 0 or processing.suspend_s < 0:
        raise InvalidRequest("max_reconsume_times and suspend_s are at least 0")
    return PushEngine(group, MemberOptions(**own), processing)


def _decoding(invoke: Invoke, decoder: Decoder) -> Invoke:
    def with_decoder(work: Work[MessageView], terms: Terms) -> Awaitable[Outcome]:
        for message in work.messages:
            message.decode_by(decoder)
        return invoke(work, terms)

    return with_decoder


def span_of(tracing: bool | TracerProvider, group: str) -> Span | None:
    """What makes the spans of a listener's calls; None for none."""
    if tracing is False:
        return None
    from lakemq.client.tracing import Tracing  # here: who doesn't trace need not load it

    made = Tracing() if tracing is True else Tracing(tracing)
    return lambda messages: made.process(messages, group)
