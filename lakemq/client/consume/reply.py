"""Answering a message whose producer waits for a reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, cast

from lakemq.client.message import encode_body
from lakemq.client.outgoing import MessageFields, parts_of
from lakemq.client.routes import Cluster
from lakemq.client.view import MessageView
from lakemq.contract import routes
from lakemq.model.errors import InvalidRequest


class ReplyFields(TypedDict, total=False):
    """The fields of a reply except its body."""

    tag: str | None
    keys: Sequence[str] | None
    properties: Mapping[str, str] | None
    json: Any
    """A JSON value, instead of the body."""


async def reply(cluster: Cluster, message: MessageView, body: object, fields: ReplyFields) -> None:
    """Answer the message, at its broker. Raises `InvalidRequest` when it is no request, and
    `RequestNotFound` when nobody waits for the reply any more."""
    correlation_id = message.properties.get("correlation_id")
    if correlation_id is None:
        raise InvalidRequest(f"message {message.message_id} is no request: it has no correlation_id")
    encoded, said = parts_of(body, cast("MessageFields", dict(fields)))
    content = {**said, **encode_body(encoded)}
    primary = cluster.primary(message.broker)
    await primary.send(routes.REPLY.at(correlation_id), content, twice=False)
