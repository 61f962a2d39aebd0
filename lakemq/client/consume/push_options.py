"""The options of push consumers."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Mapping, Sequence
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
    """Addresses of brokers. Without these and `nameservers`: the environment's LAKEMQ_NAMESERVERS, else its
    LAKEMQ_BROKER, else port 8080 of this machine."""
    nameservers: str | Sequence[str] | None
    """Addresses of name servers, which know the brokers, instead of `brokers`."""
    routes: RouteSource | None
    """A source of routes instead of addresses."""
    token: str | None
    """Identifies the client's user. By default it is the environment's LAKEMQ_TOKEN, or in the file that
    LAKEMQ_TOKEN_FILE names, else the token of this machine's administrator, if it can be found."""
    model: Model
    """`clustering` (default): each message goes to one member. `broadcasting`: each message goes to every member;
    offsets are then in a file, and a failed message is not retried."""
    orderly: bool
    """Process each queue's messages one after the other, at one member at a time: the broker locks the queue. A failed
    message is retried in place, and blocks its queue. Default False."""
    consume_from: ConsumeFrom
    """Where a group starts that has consumed nothing yet: `last` (default), `first`, or a time."""
    concurrency: int
    """The most concurrent calls of the listener; default 20."""
    batch_size: int
    """The most messages for one call of a batch listener; default 32."""
    max_reconsume_times: int | None
    """After this many retries a message becomes a dead letter. Default: the broker's setting (16); an orderly consumer
    retries without limit."""
    filter: Filter | None
    """A function of a message: the listener is only called if it returns true. Other messages count as consumed. It
    runs in the client, so every message is transferred; `tags` and `sql` filter at the broker. An error that it raises
    counts as an error of the listener."""
    decoder: Decoder
    """Decodes bodies for `message.decode(kind)`. The default is JSON."""
    reasons: Reasons
    """What to tell the broker about an error of the listener; it is kept with the message. `full` (default): its class
    and its text, which may contain private data; `class`: only its class; `none`: nothing."""
    suspend_s: Seconds
    """How long an orderly consumer waits before it retries a message; default 1."""
    consume_timeout_s: Seconds | None
    """If a call of the listener takes longer, its message or batch is returned to the broker for a later retry, other
    messages continue, and the result of the call is ignored. With asyncio the call is cancelled. A thread can't be
    cancelled: it keeps running, and counts as one of `concurrency` until it returns. Default 900; None: never. An
    orderly consumer has no such timeout, because nothing may overtake the message."""
    limits: Limits
    """How much of each queue the client holds; default 1,000 messages, 100 MiB, a span of 2,000."""
    strategy: str | Strategy
    """How queues are assigned to members: `averagely` (default), `averagely_by_circle`, `consistent_hash`, or a
    function, such as the results of `by_configuration(…)` and `by_machine_room(…)`. All members must use the same."""
    client_id: str | None
    """This member's name, which must be unique. The default is a unique one."""
    offset_file: str | os.PathLike[str] | None
    """Where broadcasting keeps its offsets; by default `~/.lakemq/offsets/{group}/{client_id}.json`. Without a
    `client_id` it is the first file there that no running consumer uses. So a restarted consumer finds its file again,
    and each of several restarted ones finds one of theirs. If another running consumer has the same file, the consumer
    doesn't start."""
    on_gap: OnGap | None
    """Called with queue, offset and next offset, once for each range of skipped offsets that no longer has messages:
    they were erased, dropped, or lost with a log's tail. It runs on the client's event loop, so it must be quick and
    must not block. The client logs a warning in any case."""
    tracing: bool | TracerProvider
    """A span for each call of the listener, with the process's OpenTelemetry provider, or another one."""


def make_engine(
    group: str,
    invoke: Invoke,
    batch: bool,
    cancels: bool,
    options: PushOptions,
    retries_by_topic: Mapping[str, int],
) -> PushEngine:
    """`cancels`: whether a call of the listener can be cancelled. `retries_by_topic`: of an application's listeners.
    Raises `InvalidRequest` and `ValueError` for options that don't fit, and `TypeError` for others."""
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
        retries_by_topic=retries_by_topic,
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
