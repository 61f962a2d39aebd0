"""`lakemq pull`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakemq.cli.brokers import ask_each, connect_all
from lakemq.cli.options import AsJson, Broker, Filter, Nameservers, Tags
from lakemq.cli.output import note, stdout
from lakemq.cli.shown import message_table, write_message
from lakemq.model.errors import QueueNotFound, TopicNotFound

if TYPE_CHECKING:
    from lakemq.client.http import HttpClient
    from lakemq.client.results import Pulled


def pull(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(help="The topic.")],
    queue: Annotated[int | None, typer.Option("--queue", min=0, help="Only this queue.", show_default="all")] = None,
    offset: Annotated[
        int | None, typer.Option("--offset", min=0, help="First offset.", show_default="the first")
    ] = None,
    count_max: Annotated[
        int, typer.Option("--max", min=1, max=10_000, help="At most this many messages of each queue.")
    ] = 32,
    wait_ms: Annotated[
        int,
        typer.Option("--wait-ms", min=0, max=60_000, help="Wait this long for a message. Needs --queue."),
    ] = 0,
    tags: Tags = "*",
    sql: Filter = None,
    as_json: AsJson = False,
    broker: Broker = None,
    nameservers: Nameservers = None,
) -> None:
    """Read messages of a topic without consuming them.

    \b
    lakemq pull orders
    lakemq pull orders --tags 'paid||shipped' --max 10
    lakemq pull orders --queue 0 --offset 100
    lakemq pull orders --filter "amount > 100 AND region = 'eu'"
    lakemq pull orders --queue 0 --offset 120 --wait-ms 30000 --json
    lakemq pull orders --nameservers http://127.0.0.1:9876
    """
    if wait_ms and queue is None:
        raise typer.BadParameter("waits on one queue: give --queue too", param_hint="--wait-ms")
    with connect_all(context, broker, nameservers) as brokers:
        if wait_ms and len(brokers) > 1:
            raise typer.BadParameter("waits at one broker: say with --broker at which", param_hint="--wait-ms")

        def ask(client: HttpClient) -> dict[int, Pulled]:
            begins = _begins(client, topic, queue, offset)
            return {
                queue_id: client.pull(topic, queue_id, begin, count_max, wait_ms, tags, sql)
                for queue_id, begin in begins.items()
            }

        missing = (TopicNotFound, QueueNotFound) if len(brokers) > 1 else ()
        pulled = ask_each(brokers, ask, missing)
    messages = [
        message for of_broker in pulled.values() for answer in of_broker.values() for message in answer.messages
    ]
    if as_json:
        for message in messages:
            write_message(message)
    elif messages:
        stdout().print(message_table(messages))
    for name, of_broker in pulled.items():
        for queue_id, answer in of_broker.items():
            note(f"queue {queue_id}{name and f' at {name}'}: {_state(answer)}")


def _begins(client: HttpClient, topic: str, queue: int | None, offset: int | None) -> dict[int, int]:
    """Where to begin in each queue that is asked for."""
    if queue is not None and offset is not None:
        return {queue: offset}
    begins = {entry["queue_id"]: entry["min_offset"] for entry in client.topic(topic)["queues"]}
    if queue is not None:
        begins = {queue: begins.get(queue, 0)}
    return {queue_id: begin if offset is None else offset for queue_id, begin in begins.items()}


def _state(answer: Pulled) -> str:
    status = answer.status.replace("_", " ")
    gone = sum(end - begin for begin, end in answer.holes)
    holes = f", {gone:,} offsets in between no longer have a message" if gone else ""
    return f"{status}, go on at offset {answer.next_offset} of {answer.max_offset}{holes}"
