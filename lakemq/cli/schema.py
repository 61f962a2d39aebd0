"""`lakemq topic schema show | set | infer | drop`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from lakemq.cli.brokers import ask_each, connect_all, said_of
from lakemq.cli.options import AsJson, Broker, Nameservers
from lakemq.cli.output import note, stdout, write_json, write_line
from lakemq.cli.spread import Name
from lakemq.model.errors import InvalidRequest, SchemaNotFound, TopicNotFound
from lakemq.model.safe_text import safe_json
from lakemq.model.schema_kinds import BODIES_MAX, JSON_SCHEMA, PROTOBUF, TYPES, last_of_each
from lakemq.model.topic_table import table_name

if TYPE_CHECKING:
    from lakemq.client.http import HttpClient

app = typer.Typer(no_args_is_help=True, help="Give a topic's bodies a schema: the topic is a table of SQL then.")
NOT_THERE = (TopicNotFound, SchemaNotFound)
IfVersion = Annotated[
    int | None, typer.Option("--if-version", min=0, help="Only if that is the current version; 0: there is none.")
]


@app.command()
def show(
    context: typer.Context,
    topic: Name,
    version: Annotated[int | None, typer.Option("--version", min=1, help="Of that number; else the newest.")] = None,
    as_json: AsJson = False,
    broker: Broker = None,
    nameservers: Nameservers = None,
) -> None:
    """Show a topic's schema with the columns that it makes.

    \b
    lakemq topic schema show invoices
    lakemq topic schema show invoices --version 1 --json
    lakemq topic schema show invoices --nameservers http://127.0.0.1:9876
    """
    with connect_all(context, broker, nameservers) as brokers:
        found = ask_each(brokers, lambda client: client.schema(topic, version), NOT_THERE)
    for name, said in found.items():
        if as_json:
            write_json({**said, **said_of(name)})
            continue
        where = f" at {name}" if name else ""
        table = Table("column", "type", title=f"{topic}{where}, version {said['version']} ({said['type']})")
        for each in said["columns"]:
            table.add_row(each["name"], each["type"])
        stdout().print(table)
        if said.get("table"):
            note(f"the jobs keep a Delta table of it: {table_name(topic)}")
        if said["ignored"]:
            note(f"not in the columns, so not checked: {', '.join(said['ignored'])}")


@app.command("set")
def set_schema(
    context: typer.Context,
    topic: Name,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The schema; -: stdin.")],
    type: Annotated[str, typer.Option("--type", metavar="|".join(TYPES), help="What the schema is.")] = JSON_SCHEMA,
    message: Annotated[
        str | None,
        typer.Option(
            "--message",
            metavar="NAME",
            help="With protobuf: the full name of the message.",
            show_default="the only one",
        ),
    ] = None,
    if_version: IfVersion = None,
    table: Annotated[
        bool | None,
        typer.Option("--table/--no-table", help="Have the jobs keep a Delta table of the topic.", show_default=False),
    ] = None,
    broker: Broker = None,
    nameservers: Nameservers = None,
) -> None:
    """Set a topic's schema, or a new version of it.

    A new version must read all that the others have written. With protobuf the file is a descriptor set, made by
    `protoc --include_imports --descriptor_set_out`, or a .proto file where protoc is installed.

    \b
    lakemq topic schema set invoices invoice.schema.json
    lakemq topic schema set invoices - --if-version 1 < invoice.schema.json
    lakemq topic schema set readings reading.avsc --type avro
    lakemq topic schema set shipments shipment.desc --type protobuf --message shop.Shipment
    lakemq topic schema set invoices invoice.schema.json --table
    lakemq topic schema set invoices invoice.schema.json --nameservers http://127.0.0.1:9876
    """
    if type == PROTOBUF:
        from lakemq.cli.descriptor_set import schema_of_file

        text = schema_of_file(file, message)
    elif message is not None:
        raise InvalidRequest("--message is of --type protobuf alone")
    else:
        text = _text_of(file)
    with connect_all(context, broker, nameservers) as brokers:
        done = ask_each(brokers, lambda client: client.set_schema(topic, text, type, if_version, table))
    for name, said in done.items():
        keeps = ", and a Delta table" if said.get("table") else ""
        note(f"topic {topic} has version {said['version']} of its schema{keeps}{name and f' at {name}'}")


def _text_of(file: Path) -> str:
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"can't read {file}: {error}") from None


@app.command()
def infer(
    context: typer.Context,
    topic: Name,
    messages: Annotated[
        int,
        typer.Option("--messages", min=1, max=BODIES_MAX, help="How many of the newest messages it looks at."),
    ] = 1_000,
    broker: Broker = None,
    nameservers: Nameservers = None,
) -> None:
    """Propose a JSON Schema that the topic's newest messages fit.

    It changes nothing.

    \b
    lakemq topic schema infer invoices
    lakemq topic schema infer invoices --messages 10000
    lakemq topic schema infer invoices --nameservers http://127.0.0.1:9876
    """
    from lakemq.model.infer_schema import infer_schema

    bodies: list[bytes] = []
    with connect_all(context, broker, nameservers) as brokers:
        for read in ask_each(brokers, lambda client: _last_bodies(client, topic, messages)).values():
            bodies += read
    found = infer_schema(bodies)
    write_line(safe_json(json.dumps(found.schema, indent=2, ensure_ascii=False)))
    note(f"of {found.bodies} messages, {found.others} of which are no objects of JSON")
    if found.decimals:
        shown = ", ".join(map(repr, found.decimals[:20]))
        note(f"DECIMAL by multipleOf, as no number has more than 4 decimals: {shown}. Where one may come, take it out")
    if found.left_out:
        note(f"left out, as they can't be columns: {', '.join(map(repr, found.left_out[:20]))}")


def _last_bodies(client: HttpClient, topic: str, count_max: int) -> list[bytes]:
    queues = [each for each in client.topic(topic)["queues"] if each["max_offset"] > each["min_offset"]]
    bodies: list[bytes] = []
    for queue in queues:
        end = queue["max_offset"]
        offset = max(queue["min_offset"], end - last_of_each(len(queues), count_max))
        while offset < end:
            page = client.pull(topic, queue["queue_id"], offset, min(end - offset, 1_000))
            bodies += [each.body for each in page.messages]
            if page.next_offset <= offset:
                break
            offset = page.next_offset
    return bodies


@app.command()
def drop(
    context: typer.Context,
    topic: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    if_version: IfVersion = None,
    broker: Broker = None,
    nameservers: Nameservers = None,
) -> None:
    """Drop a topic's schema with all its versions. Its messages stay.

    \b
    lakemq topic schema drop invoices --yes
    lakemq topic schema drop invoices --yes --if-version 1
    lakemq topic schema drop invoices --yes --nameservers http://127.0.0.1:9876
    """
    if not yes:
        typer.confirm(f"Drop the schema of topic {topic}?", abort=True, err=True)
    with connect_all(context, broker, nameservers) as brokers:
        done = ask_each(brokers, lambda client: client.drop_schema(topic, if_version), NOT_THERE)
    for name in done:
        note(f"dropped the schema of topic {topic}{name and f' at {name}'}")
