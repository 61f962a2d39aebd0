"""`lakemq topic create | list | show | delete`."""

from __future__ import annotations

from typing import Annotated

import orjson
import typer
from rich.table import Table

from lakemq.cli.options import AsJson, Broker, connect
from lakemq.cli.output import note, stdout, write_line

app = typer.Typer(no_args_is_help=True, help="Make topics, look at them, delete them.")
Name = Annotated[str, typer.Argument(metavar="TOPIC", help="1 to 127 of A-Z a-z 0-9 _ -.")]


@app.command()
def create(
    context: typer.Context,
    topic: Name,
    queues: Annotated[int, typer.Option("--queues", min=1, help="How many; only grows.")] = 4,
    permission: Annotated[str, typer.Option("--permission", metavar="r|w|rw", help="What clients may do.")] = "rw",
    broker: Broker = None,
) -> None:
    """Make a topic, or change it.

    \b
    lakemq topic create orders --queues 8
    lakemq topic create archive --permission r
    """
    with connect(context, broker) as client:
        made = client.create_topic(topic, queues, permission)
    note(f"{'made' if made else 'changed'} topic {topic}")


@app.command("list")
def list_topics(
    context: typer.Context,
    system: Annotated[bool, typer.Option("--system", help="The system's topics too.")] = False,
    as_json: AsJson = False,
    broker: Broker = None,
) -> None:
    """List the topics.

    \b
    lakemq topic list
    lakemq topic list --system
    lakemq topic list --json | head
    """
    with connect(context, broker) as client:
        topics = client.topics(system)
    if as_json:
        for topic in topics:
            write_line(orjson.dumps(topic).decode())
        return
    table = Table("topic", "queues", "messages", "permission")
    for topic in topics:
        queues: list[dict[str, int]] = topic["queues"]
        messages = sum(queue["max_offset"] - queue["min_offset"] for queue in queues)
        table.add_row(topic["topic"], str(len(queues)), f"{messages:,}", topic["permission"])
    stdout().print(table)


@app.command()
def show(context: typer.Context, topic: Name, as_json: AsJson = False, broker: Broker = None) -> None:
    """Show a topic with the range of offsets of each of its queues.

    \b
    lakemq topic show orders
    """
    with connect(context, broker) as client:
        content = client.topic(topic)
    if as_json:
        write_line(orjson.dumps(content).decode())
        return
    table = Table("queue", "first offset", "next offset", "messages", title=content["topic"])
    for queue in content["queues"]:
        begin, end = queue["min_offset"], queue["max_offset"]
        table.add_row(str(queue["queue_id"]), f"{begin:,}", f"{end:,}", f"{end - begin:,}")
    stdout().print(table)


@app.command()
def delete(
    context: typer.Context,
    topic: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    broker: Broker = None,
) -> None:
    """Delete a topic; its messages can't be pulled any more.

    \b
    lakemq topic delete orders --yes
    """
    if not yes:
        typer.confirm(f"Delete topic {topic}?", abort=True, err=True)
    with connect(context, broker) as client:
        client.delete_topic(topic)
    note(f"deleted topic {topic}")
