"""A batch that a program made itself: one request, stored as a whole or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakemq.client.bodies.encoder import Encoder, default_encoder
from lakemq.client.outgoing import SendReceipt, check_topic, is_delayed, parts_of
from lakemq.client.produce.batch import Batch
from lakemq.client.produce.choice import chooses, queue_of
from lakemq.client.produce.core import Core, read_answer, receipt_of
from lakemq.client.produce.deliver import Request
from lakemq.client.produce.encode import encode
from lakemq.client.produce.lane import LaneKind
from lakemq.client.produce.selecting import Choice, check_queue, chosen, queues_to_choose
from lakemq.client.produce.traced import spans_of
from lakemq.contract import routes
from lakemq.model.errors import InvalidRequest
from lakemq.model.message_queue import MessageQueue

if TYPE_CHECKING:
    from lakemq.client.tracing import Tracing


async def send_whole(
    core: Core,
    topic: str,
    messages: Sequence[object],
    tracing: Tracing | None,
    queue: MessageQueue | None = None,
    encoder: Encoder = default_encoder,
) -> list[SendReceipt]:
    """Store the messages, all or none, in that queue if one is named; receipts in their order.

    What was sent before to the queues that ordering keys choose is stored first. Raises
    `InvalidRequest` for what no batch may hold: delays, and queues of several brokers.
    """
    if queue is not None:
        check_queue(topic, queue)
    batch = Batch(check_topic(topic), 0.0)
    for message in messages:
        batch.add(*parts_of(message, {}, None, encoder))
    if any(is_delayed(batch.fields(number)) for number in range(len(messages))):
        raise InvalidRequest("a batch is delivered at once: send delayed messages one by one")
    if not messages:
        return []
    if queue is not None and "queue_id" in batch.columns:
        raise InvalidRequest("a batch has a queue, or its messages have a queue_id, not both")
    with spans_of(tracing, batch) as spans:
        spans.stored = receipts = await _store(core, batch, queue)
    return receipts


async def _store(core: Core, batch: Batch, queue: MessageQueue | None) -> list[SendReceipt]:
    topic, count = batch.topic, len(batch.bodies)
    if queue is not None:
        known = core.queues_known(topic, queue) or await queues_to_choose(core, topic)
        queue = chosen(known, Choice(queue, None), b"", {})
        await core.flush({LaneKind(topic, queue=queue)})
        return await _deliver(core, batch, queue, {queue.broker})
    if any(chooses(batch.fields(number)) for number in range(count)):
        await core.flush({LaneKind(topic, keyed=True)})  # what was sent while the topic was being made
    queues = await choose_queues(core, batch)
    brokers = {queue.broker for queue in queues}
    if len(brokers) > 1:
        raise InvalidRequest(f"the batch's ordering keys lie on several brokers: {', '.join(sorted(brokers))}")
    all_choose = all(chooses(batch.fields(number)) for number in range(count))
    whole = next(iter(queues)) if len(queues) == 1 and all_choose else None
    if queues:
        await core.flush({LaneKind(topic, queue=queue) for queue in queues})
    return await _deliver(core, batch, whole, brokers)


async def _deliver(core: Core, batch: Batch, whole: MessageQueue | None, brokers: set[str]) -> list[SendReceipt]:
    topic, count = batch.topic, len(batch.bodies)
    # Where it goes to several queues, only an answer in JSON says where each message went.
    as_json = whole is None and not batch.columns.keys().isdisjoint({"ordering_key", "queue_id", "priority"})
    send_ids = await core.send_ids(batch) if not brokers else None
    encoded = encode(batch, whole.queue_id if whole else None, as_json, core.options.compression, send_ids)
    request = Request(
        topic=topic,
        target=routes.PRODUCE.at(topic),
        pieces=encoded.pieces,
        content_type=encoded.content_type,
        params=core.ack_params(),
        headers=encoded.headers,
        broker=next(iter(brokers), None),
        anywhere=send_ids is not None,
    )
    outcome = read_answer(as_json, topic, count, await core.deliverer.deliver(request))
    return [receipt_of(outcome(number)) for number in range(count)]


async def choose_queues(core: Core, batch: Batch) -> set[MessageQueue]:
    """Put the messages in the queues that they themselves choose, and say which; none while the topic
    doesn't exist: then the gateway does it as it makes the topic."""
    choosing = [number for number in range(len(batch.bodies)) if chooses(batch.fields(number))]
    known = await core.learn(batch.topic) if choosing else []
    chosen: set[MessageQueue] = set()
    for number in choosing:
        queue = queue_of(known, batch.fields(number))
        if queue is not None:
            batch.put("queue_id", number, queue.queue_id)
            chosen.add(queue)
    return chosen
