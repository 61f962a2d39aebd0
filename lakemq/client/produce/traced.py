"""Spans of messages that are sent past the lanes: batches, requests, transactions."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakemq.client.outgoing import SendReceipt
from lakemq.client.produce.batch import Batch

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from lakemq.client.tracing import Tracing


class Spans:
    """The spans of a batch's messages; `stored` says where each was stored, if that is known."""

    def __init__(self) -> None:
        self.stored: Sequence[SendReceipt | None] = ()


@contextmanager
def spans_of(tracing: Tracing | None, batch: Batch) -> Generator[Spans]:
    """A span for each message of the batch, whose properties carry it. What is raised within fails all."""
    told = Spans()
    begun: list[Span] = []
    if tracing is not None:
        for number, body in enumerate(batch.bodies):
            span, properties = tracing.begin_send(batch.topic, len(body), batch.fields(number).get("properties"))
            batch.put("properties", number, properties)
            begun.append(span)
    error: BaseException | None = None
    try:
        yield told
    except BaseException as raised:
        error = raised
        raise
    finally:
        if tracing is not None:
            for number, span in enumerate(begun):
                tracing.end_send(span, error or (told.stored[number] if told.stored else None))
