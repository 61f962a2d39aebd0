"""`lakemq pull`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import orjson
import typer
from rich.table import Table

from lakemq.cli.options import AsJson, Broker, connect
from lakemq.cli.output import note, stdout, write_line
from lakemq.client.message import encode_body, encode_message

if TYPE_CHECKING:
    from lakemq.client.http import HttpClient
    from lakemq.client.message import Message
    from lakemq.client.results import Pulled


def pull(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(help="Whose messages.")],
    queue: Annotated[int | None, typer.Option("--queue", min=0, help="Which queue.", show_default="all")] = None,
    offset: Annotated[int | None, typer.Option("--offset", min=0, help="From where.", show_default="the first")] = None,
    count_max: Annotated[int, typer.Option("--max", min=1, max=10_000, help="At most so many of each queue.")] = 32,
    wait_ms: Annotated[
        int,
        typer.Option("--wait-ms", min=0, max=60_000, help="Wait for a message; needs --queue."),
    ] = 0,
    tags: Annotated[str, typer.Option("--tags", metavar="A||B", help="Only these tags.")] = "*",
    as_json: AsJson = False,
    broker: Broker = None,
) -> None:
    """Look at the messages of a topic; they stay where they are.

    \b
    lakemq pull orders
    lakemq pull orders --queue 0 --offset 100 --max 10 --tags 'paid||shipped'
    lakemq pull orders --queue 0 --offset 120 --wait-ms 30000 --json
    """
    if wait_ms and queue is None:
        raise typer.BadParameter("waits on one queue: give --queue too", param_hint="--wait-ms")
    with connect(context, broker) as client:
        begins = _begins(client, topic, queue, offset)
        pulled = {
            queue_id: client.pull(topic, queue_id, begin, count_max, wait_ms, tags)
            for queue_id, begin in begins.items()
        }
    if as_json:
        for answer in pulled.values():
            for message in answer.messages:
                write_line(orjson.dumps(encode_message(message)).decode())
    else:
        _show([message for answer in pulled.values() for message in answer.messages])
    for queue_id, answer in pulled.items():
        note(f"queue {queue_id}: {_state(answer)}")


def _begins(client: HttpClient, topic: str, queue: int | None, offset: int | None) -> dict[int, int]:
    """Where to begin in each queue that is asked for."""
    if queue is not None and offset is not None:
        return {queue: offset}
    begins = {entry["queue_id"]: entry["min_offset"] for entry in client.topic(topic)["queues"]}
    if queue is not None:
        begins = {queue: begins.get(queue, 0)}
    return {queue_id: begin if offset is None else offset for queue_id, begin in begins.items()}


def _show(messages: list[Message]) -> None:
    if not messages:
        return
    table = Table("queue", "offset", "tag", "keys", "body", "message id")
    for message in messages:
        body = encode_body(message.body)
        text = body["body"] if "body_encoding" not in body else f"({len(message.body):,} bytes)"
        table.add_row(
            str(message.queue_id),
            str(message.queue_offset),
            message.tag or "",
            " ".join(message.keys),
            _plain(text),
            message.message_id,
        )
    stdout().print(table, markup=False)


def _plain(text: str) -> str:
    """Text that can't steer the terminal."""
    return "".join(letter if letter.isprintable() else "·" for letter in text)


def _state(answer: Pulled) -> str:
    status = answer.status.replace("_", " ")
    return f"{status}, go on at offset {answer.next_offset} of {answer.max_offset}"
