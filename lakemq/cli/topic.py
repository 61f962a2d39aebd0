"""`lakemq topic create | config | list | show | schema | spread | delete`."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table

from lakemq.cli import schema, shown, spread
from lakemq.cli.brokers import ask_each, connect_all, said_of
from lakemq.cli.options import AsJson, Broker, Nameservers
from lakemq.cli.output import note, stdout, write_json
from lakemq.contract.kept import kept_in
from lakemq.model.topic_config import MESSAGE_TYPES, TopicConfig

app = typer.Typer(no_args_is_help=True, help="Create, show, change and delete topics.")
app.add_typer(schema.app, name="schema")
Name = spread.Name
MessageType = Annotated[
    str | None,
    typer.Option(
        "--message-type", metavar="|".join(MESSAGE_TYPES), help="Take only messages of this type.", show_default="any"
    ),
]
TtlMs = Annotated[
    int | None,
    typer.Option("--ttl-ms", min=0, help="Time to live of messages that have none. 0: no limit.", show_default="0"),
]
MessageBytesMax = Annotated[
    int | None,
    typer.Option("--message-bytes-max", min=0, help="Largest body. 0: the broker's limit.", show_default="0"),
]
_CONFIG = ("permission", *TopicConfig._fields, "expired")
_TIMES = ("oldest", "newest")


@app.command()
def create(
    context: typer.Context,
    topic: Name,
    queues: Annotated[
        int, typer.Option("--queues", min=1, help="Number of queues at each broker. It can only grow.")
    ] = 4,
    permission: Annotated[
        str, typer.Option("--permission", metavar="r|w|rw", help="What clients may do: read, write or both.")
    ] = "rw",
    message_type: MessageType = None,
    ttl_ms: TtlMs = None,
    message_bytes_max: MessageBytesMax = None,
    broker: Broker = None,
    nameservers: Nameservers = None,
) -> None:
    """Create a topic, or change it.

    \b
    lakemq topic create orders --queues 8
    lakemq topic create archive --permission r
    lakemq topic create alarms --queues 3 --message-type priority --ttl-ms 600000
    lakemq topic create small --message-bytes-max 65536
    lakemq topic create parcels --nameservers http://127.0.0.1:9876
    """
    config = _given(message_type, ttl_ms, message_bytes_max)
    with connect_all(context, broker, nameservers) as brokers:
        made = ask_each(brokers, lambda client: client.create_topic(topic, queues, permission, config))
    for name, is_new in made.items():
        note(f"{'made' if is_new else 'changed'} topic {topic}{name and f' at {name}'}")


@app.command()
def config(
    context: typer.Context,
    topic: Name,
    message_type: MessageType = None,
    ttl_ms: TtlMs = None,
    message_bytes_max: MessageBytesMax = None,
    as_json: AsJson = False,
    broker: Broker = None,
    nameservers: Nameservers = None,
) -> None:
    """Show or change the configuration of a topic.

    \b
    lakemq topic config orders
    lakemq topic config orders --ttl-ms 3600000
    lakemq topic config orders --ttl-ms 0 --message-bytes-max 65536
    lakemq topic config greetings --message-type any
    lakemq topic config orders --nameservers http://127.0.0.1:9876
    """
    given = _given(message_type, ttl_ms, message_bytes_max)
    with connect_all(context, broker, nameservers) as brokers:
        found = ask_each(brokers, lambda client: client.topic(topic))
        if given:
            having = [each for each in brokers if each.name in found]
            found = ask_each(having, lambda client: client.configure_topic(topic, given))
    rows = [{**{name: content[name] for name in _CONFIG}, **said_of(at)} for at, content in found.items()]
    if as_json:
        for row in rows:
            write_json({"topic": topic, **row})
        return
    table = Table(*said_of(*found), *_CONFIG, title=topic)
    for at, row in zip(found, rows, strict=True):
        table.add_row(*said_of(at).values(), *(str(row[name]) for name in _CONFIG))
    stdout().print(table)


def _given(message_type: str | None, ttl_ms: int | None, message_bytes_max: int | None) -> dict[str, str | int]:
    """What was said of a topic's configuration."""
    said = {"message_type": message_type, "ttl_ms": ttl_ms, "message_bytes_max": message_bytes_max}
    return {name: value for name, value in said.items() if value is not None}


@app.command("list")
def list_topics(
    context: typer.Context,
    system: Annotated[bool, typer.Option("--system", help="List system topics too.")] = False,
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
            write_json(row)
        return
    table = Table("topic", *said_of(*found), "queues", "messages", "permission")
    for row in sorted(rows, key=lambda each: each["topic"]):
        messages = sum(map(kept_in, row["queues"]))
        where = said_of(row.get("broker", "")).values()
        table.add_row(row["topic"], *where, str(len(row["queues"])), f"{messages:,}", row["permission"])
    stdout().print(table)


@app.command()
def show(
    context: typer.Context,
    topic: Name,
    times: Annotated[
        bool, typer.Option("--times", help="Also when each queue's oldest and newest message were stored.")
    ] = False,
    as_json: AsJson = False,
    broker: Broker = None,
    nameservers: Nameservers = None,
) -> None:
    """Show a topic and the offsets of its queues.

    \b
    lakemq topic show orders
    lakemq topic show orders --times
    lakemq topic show orders --nameservers http://127.0.0.1:9876
    """
    with connect_all(context, broker, nameservers) as brokers:
        found = ask_each(brokers, lambda client: client.topic(topic, times))
    if as_json:
        for name, content in found.items():
            write_json({**content, **said_of(name)})
        return
    told = _TIMES if times else ()
    headings = (*said_of(*found), "queue", "first offset", "next offset", "messages")
    table = Table(*headings, *map(shown.whole, told), title=topic)
    for name, content in found.items():
        for queue in content["queues"]:
            begin, end = queue["min_offset"], queue["max_offset"]
            numbers = (f"{each:,}" for each in (begin, end, kept_in(queue)))
            moments = [_moment(queue.get(f"{each}_ms")) for each in told]
            table.add_row(*said_of(name).values(), str(queue["queue_id"]), *numbers, *moments)
    stdout().print(table)


def _moment(time_ms: int | None) -> str:
    return "" if time_ms is None else shown.time_of(time_ms)


app.command()(spread.spread)


@app.command()
def delete(
    context: typer.Context,
    topic: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    broker: Broker = None,
    nameservers: Nameservers = None,
) -> None:
    """Delete a topic. Its messages can't be read any more.

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
