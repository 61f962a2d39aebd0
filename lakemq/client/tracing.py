"""Message trace by OpenTelemetry: spans of producers and consumers, tied together by W3C context.

A producer puts `traceparent` (and `tracestate`) in a message's properties; a consumer's span is a
child of the producer's. Names and attributes are those of OpenTelemetry's semantic conventions for
messaging. Off by default: then nothing of OpenTelemetry is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.trace import Link, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from lakemq import __version__
from lakemq.contract import spans as names
from lakemq.contract.spans import PROCESS, SEND

if TYPE_CHECKING:
    from opentelemetry.trace import Span, TracerProvider

    from lakemq.client.outgoing import SendReceipt
    from lakemq.client.view import MessageView

_W3C = TraceContextTextMapPropagator()
STATUS_CHARACTERS_MAX = 1_024


class Tracing:
    """Makes a client's spans; with the process's tracer provider unless another is given."""

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("lakemq.client", __version__, tracer_provider=provider)

    def begin_send(
        self, topic: str, body_bytes: int, properties: Mapping[str, str] | None
    ) -> tuple[Span, dict[str, str]]:
        """The span of one message on its way, a child of the span that is current, and the properties that carry it.
        The sender ends it with `end_send`."""
        span = self._tracer.start_span(
            SEND.span_name(topic),
            kind=SpanKind.PRODUCER,
            attributes=SEND.attributes(topic) | {names.BODY_BYTES: body_bytes},
        )
        carrier = dict(properties or {})
        _W3C.inject(carrier, trace.set_span_in_context(span))
        return span, carrier

    def end_send(self, span: Span, outcome: SendReceipt | BaseException | None) -> None:
        """End a span of `begin_send`; None: nobody learned the outcome of the message."""
        if isinstance(outcome, BaseException):
            _fail(span, outcome)
        elif outcome is not None:
            span.set_attribute(names.MESSAGE_ID, outcome.message_id)
            span.set_attribute(names.QUEUE, str(outcome.queue_id))
            span.set_attribute(names.BROKER, outcome.broker)
        span.end()

    @contextmanager
    def process(self, messages: Sequence[MessageView], group: str) -> Generator[Callable[[str], None]]:
        """The span of a listener's call, current within. One message's is a child of the span that sent
        it; that of several is linked to theirs. What is raised within fails it and goes on; so does what is yielded,
        when it is called with the word by which the messages are to come again."""
        contexts = [_W3C.extract(message.properties) for message in messages]
        alone = len(messages) == 1
        links = [] if alone else [Link(trace.get_current_span(context).get_span_context()) for context in contexts]
        topic = messages[0].real_topic or messages[0].topic
        attributes = PROCESS.attributes(topic, group)
        if alone:
            attributes |= _of_message(messages[0])
        else:
            attributes[names.COUNT] = len(messages)
        span = self._tracer.start_span(
            PROCESS.span_name(topic),
            context=contexts[0] if alone else None,
            kind=SpanKind.CONSUMER,
            attributes=attributes,
            links=[link for link in links if link.context.is_valid],
        )
        with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
            try:
                yield partial(_fail_by, span)
            except BaseException as error:
                _fail(span, error)
                raise


def _of_message(message: MessageView) -> dict[str, str | int]:
    return {
        names.MESSAGE_ID: message.message_id,
        names.BODY_BYTES: len(message.body),
        names.QUEUE: str(message.queue_id),
        names.RECONSUME_TIMES: message.reconsume_times,
    }


def _fail(span: Span, error: BaseException) -> None:
    span.record_exception(error)
    reason = getattr(error, "reason", None)  # of who asks for its message to come later
    why = reason if isinstance(reason, BaseException) else error
    _fail_by(span, getattr(why, "code", type(why).__name__), str(reason or error))


def _fail_by(span: Span, error_type: str, text: str | None = None) -> None:
    span.set_attribute(names.ERROR, error_type)
    span.set_status(Status(StatusCode.ERROR, text and text[:STATUS_CHARACTERS_MAX]))
