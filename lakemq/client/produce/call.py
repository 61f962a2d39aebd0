"""Request and reply: a message that waits for its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakemq.client.durations import Seconds, to_seconds
from lakemq.client.outgoing import MessageFields, check_topic, is_delayed
from lakemq.client.produce.batch import Batch
from lakemq.client.produce.core import Core
from lakemq.client.produce.deliver import Request
from lakemq.client.produce.encode import encode_one
from lakemq.client.produce.traced import spans_of
from lakemq.client.view import MessageView
from lakemq.contract import routes
from lakemq.model.errors import InvalidRequest

if TYPE_CHECKING:
    from lakemq.client.tracing import Tracing

ANSWER_SLACK_S = 2.0
"""So much longer than the broker is asked to wait is its answer waited for."""


async def call(
    core: Core, topic: str, body: bytes, fields: MessageFields, given_s: Seconds, tracing: Tracing | None
) -> MessageView:
    """Store the message and wait for its reply. Raises what the broker answers instead."""
    timeout_s = to_seconds(given_s, "timeout_s")
    if is_delayed(fields):
        raise InvalidRequest("a request that waits for its reply can't be delayed")
    batch = Batch(check_topic(topic), 0.0)
    batch.add(body, fields)
    with spans_of(tracing, batch):
        encoded = encode_one(batch, core.options.compression)
        request = Request(
            topic=topic,
            target=routes.REQUEST.at(topic),
            pieces=encoded.pieces,
            content_type=encoded.content_type,
            params={"timeout_ms": round(timeout_s * 1000)},
            headers=encoded.headers,
            once=False,
            wait_s=timeout_s + ANSWER_SLACK_S,
        )
        return MessageView.of((await core.deliverer.deliver(request)).json())
