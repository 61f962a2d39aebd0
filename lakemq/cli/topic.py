"""`lakemq topic create | list | show | spread | delete`."""

from __future__ import annotations

from typing import Annotated, Any

import orjson
import typer
from rich.table import Table

from lakemq.cli import spread
from lakemq.cli.brokers import ask_each, connect_all, said_of
from lakemq.cli.options import AsJson, Broker, Nameservers
from lakemq.cli.output import note, stdout, write_line

app = typer.Typer(no_args_is_help=True, help="Make topics, look at them, delete them.")
Name = spread.Name


@app.command()
def create(
    context: typer.Context,
    topic: Name,
    queues: Annotated[int, typer.Option("--queues", min=1, help="How many at each broker; only grows.")] = 4,
    permission: Annotated[str, typer.Option("--permission", metavar="r|w|rw", help="What clients may do.")] = "rw",
    broker: Broker = None,
    nameservers: Nameservers = None,
) -> None:
    """Make a topic, or change it: at one broker, or at all that name servers know.

    \b
    lakemq topic create orders --queues 8
    lakemq topic create archive --permission r
    lakemq topic create parcels --nameservers http://127.0.0.1:9876
    """
    with connect_all(context, broker, nameservers) as brokers:
        made = ask_each(brokers, lambda client: client.create_topic(topic, queues, permission))
    for name, is_new in made.items():
        note(f"{'made' if is_new else 'changed'} topic {topic}{name and f' at {name}'}")


@app.command("list")
def list_topics(
    context: typer.Context,
    system: Annotated[bool, typer.Option("--system", help="The system's topics too.")] = False,
    as_json: AsJson = False,
    broker: Broker = None,
    nameservers: Nameservers = None,
) -> None:
    """List the topics.

    \b
    lakemq topic list
    lakemq topic list --system
    lakemq topic list --json | head
    lakemq topic list --nameservers http://127.0.0.1:9876
    """
    with connect_all(context, broker, nameservers) as brokers:
        found = ask_each(brokers, lambda client: client.topics(system))
    rows: list[dict[str, Any]] = [{**topic, **said_of(name)} for name, topics in found.items() for topic in topics]
    if as_json:
        for row in rows:
            write_line(orjson.dumps(row).decode())
        return
    table = Table("topic", *said_of(*found), "queues", "messages", "permission")
    for row in sorted(rows, key=lambda each: each["topic"]):
        queues: list[dict[str, int]] = row["queues"]
        messages = sum(queue["max_offset"] - queue["min_offset"] for queue in queues)
        where = said_of(row.get("broker", "")).values()
        table.add_row(row["topic"], *where, str(len(queues)), f"{messages:,}", row["permission"])
    stdout().print(table)


@app.command()
def show(
    context: typer.Context, topic: Name, as_json: AsJson = False, broker: Broker = None, nameservers: Nameservers = None
) -> None:
    """Show a topic with the range of offsets of each of its queues.

    \b
    lakemq topic show orders
    lakemq topic show orders --nameservers http://127.0.0.1:9876
    """
    with connect_all(context, broker, nameservers) as brokers:
        found = ask_each(brokers, lambda client: client.topic(topic))
    if as_json:
        for name, content in found.items():
            write_line(orjson.dumps({**content, **said_of(name)}).decode())
        return
    table = Table(*said_of(*found), "queue", "first offset", "next offset", "messages", title=topic)
    for name, content in found.items():
        for queue in content["queues"]:
            begin, end = queue["min_offset"], queue["max_offset"]
            table.add_row(*said_of(name).values(), str(queue["queue_id"]), f"{begin:,}", f"{end:,}", f"{end - begin:,}")
    stdout().print(table)


app.command()(spread.spread)


@app.command()
def delete(
    context: typer.Context,
    topic: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    broker: Broker = None,
    nameservers: Nameservers = None,
) -> None:
    """Delete a topic; its messages can't be pulled any more.

    \b
    lakemq topic delete orders --yes
    lakemq topic delete orders --yes --nameservers http://127.0.0.1:9876
    """
    if not yes:
        typer.confirm(f"Delete topic {topic}?", abort=True, err=True)
    with connect_all(context, broker, nameservers) as brokers:
        deleted = ask_each(brokers, lambda client: client.delete_topic(topic))
    for name in deleted:
        note(f"deleted topic {topic}{name and f' at {name}'}")
