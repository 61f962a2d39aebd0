"""Pulling from one queue, and what a queue has."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (pyarrow carries no types)

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from lakemq.client.consume.gaps import Range
from lakemq.client.routes import Cluster
from lakemq.client.transport import Answer
from lakemq.client.view import MessageView, Rows
from lakemq.contract import routes
from lakemq.contract.forms import ARROW
from lakemq.model.errors import QueueNotFound
from lakemq.model.message_queue import MessageQueue

if TYPE_CHECKING:
    import pyarrow as pa

_ACCEPT = {"Accept": ARROW}
FEW = 32
"""So many messages as JSON cost no more than as Arrow; fewer cost less: a tenth for one."""


class Fetched(NamedTuple):
    """What a pull answered. `bytes`: what its messages hold of memory. `holes`: the offsets that it passes and
    that hold no message any more."""

    status: str
    next_offset: int
    table: pa.Table
    bytes: int
    holes: Sequence[Range]


class FetchedViews(NamedTuple):
    """What a pull answered, as messages and their offsets."""

    status: str
    next_offset: int
    messages: list[MessageView]
    offsets: Sequence[int]
    bytes: int
    holes: Sequence[Range]


async def fetch(
    cluster: Cluster, queue: MessageQueue, offset: int, count_max: int, wait_s: float, params: Mapping[str, str | int]
) -> Fetched:
    """Messages of a queue from `offset` on, waiting for the first; `params` say what else to ask for.

    Raises `Unreachable`, or the answer's own error.
    """
    import pyarrow as pa  # here: who only produces need not load it

    answer = await _pull(cluster, queue, {"offset": offset, "max": count_max, **params}, wait_s, _ACCEPT)
    headers = answer.headers
    with pa.ipc.open_stream(answer.body) as stream:
        table = stream.read_all()
    next_offset = int(headers["Lakemq-Next-Offset"])
    holes, are_all = read_holes(headers.get("Lakemq-Holes", ""))
    if not are_all:
        # What comes after the last one that is named is pulled again, so that each is told.
        next_offset = holes[-1][1]
        table = table.slice(0, bisect_left(_offsets(table), next_offset))
    return Fetched(headers["Lakemq-Status"], next_offset, table, len(answer.body), holes)


async def fetch_views(
    cluster: Cluster, queue: MessageQueue, offset: int, count_max: int, wait_s: float, params: Mapping[str, str | int]
) -> FetchedViews:
    """As `fetch`, as Arrow."""
    found = await fetch(cluster, queue, offset, count_max, wait_s, params)
    views = list(Rows.of_table(found.table))
    return FetchedViews(found.status, found.next_offset, views, _offsets(found.table), found.bytes, found.holes)


async def fetch_few(
    cluster: Cluster, queue: MessageQueue, offset: int, count_max: int, wait_s: float, params: Mapping[str, str | int]
) -> FetchedViews:
    """As `fetch`, as JSON, and `FEW` at most: for queues whose messages come one by one."""
    query = {"offset": offset, "max": min(count_max, FEW), **params}
    answer = await _pull(cluster, queue, query, wait_s, None)
    content = answer.json()
    messages = list(Rows.of_json(content["messages"]))
    offsets = [message.queue_offset for message in messages]
    holes = content.get("holes", ())
    return FetchedViews(content["status"], content["next_offset"], messages, offsets, len(answer.body), holes)


def read_holes(header: str) -> tuple[list[Range], bool]:
    """The ranges of offsets that a `Lakemq-Holes` names, `3-7,9-9`, and whether these are all there are."""
    texts = [text for text in header.split(",") if text]
    are_all = texts[-1:] != ["more"]
    pairs = [text.split("-") for text in (texts if are_all else texts[:-1])]
    return [(int(first), int(last) + 1) for first, last in pairs], are_all


async def _pull(
    cluster: Cluster,
    queue: MessageQueue,
    query: Mapping[str, str | int],
    wait_s: float,
    headers: Mapping[str, str] | None,
) -> Answer:
    target, params = routes.PULL.at(queue.topic, queue.queue_id), {"wait_ms": int(wait_s * 1000), **query}
    cluster.note_reading(queue.topic)
    return await cluster.far_reads.pull(queue, target, params, headers, wait_s)


def _offsets(table: pa.Table) -> Sequence[int]:
    count = table.num_rows
    if not count:
        return ()
    column = table.column("queue_offset")
    first, last = column[0].as_py(), column[count - 1].as_py()
    return range(first, last + 1) if last - first + 1 == count else column.to_pylist()


class Bounds(NamedTuple):
    """The first offset of a queue, and the offset of its next message."""

    begin: int
    end: int


async def bounds_of_topic(cluster: Cluster, broker: str, topic: str) -> dict[MessageQueue, Bounds]:
    """The bounds of the topic's queues at a broker; as its follower has them, while it has no primary."""
    answer: Any = (await cluster.reader(broker).request(routes.TOPIC.at(topic))).json()
    return {
        MessageQueue(topic, broker, entry["queue_id"]): Bounds(entry["min_offset"], entry["max_offset"])
        for entry in answer["queues"]
    }


async def bounds_of(cluster: Cluster, queue: MessageQueue) -> Bounds:
    """The bounds of one queue. Raises `QueueNotFound` too."""
    found = (await bounds_of_topic(cluster, queue.broker, queue.topic)).get(queue)
    if found is None:
        raise QueueNotFound(f"broker {queue.broker!r} has no queue {queue.queue_id} of {queue.topic!r}")
    return found


async def offset_at(cluster: Cluster, queue: MessageQueue, timestamp_ms: int) -> int:
    """The offset of the first message stored at that time or after."""
    target = routes.OFFSET_BY_TIME.at(queue.topic, queue.queue_id)
    answer = await cluster.reader(queue.broker).request(target, {"timestamp_ms": timestamp_ms})
    return answer.json()["offset"]
