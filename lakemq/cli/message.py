"""`lakemq message get | search | recall`."""

from __future__ import annotations

from typing import Annotated

import orjson
import typer
from rich.table import Table
from rich.text import Text

from lakemq.cli import shown
from lakemq.cli.brokers import ask_each, connect_all, the_one_of
from lakemq.cli.delay import moment_ms
from lakemq.cli.options import AsJson, Broker, Filter, Nameservers, Tags
from lakemq.cli.output import note, stdout, write_line
from lakemq.client.message import encode_message

app = typer.Typer(no_args_is_help=True, help="Find messages, and recall scheduled ones.")
Id = Annotated[str, typer.Argument(metavar="MESSAGE_ID", help="Id of the message, as produce and pull show it.")]


@app.command()
def get(
    context: typer.Context,
    message_id: Id,
    as_json: AsJson = False,
    broker: Broker = None,
    nameservers: Nameservers = None,
) -> None:
    """Show one message by its id.

    \b
    lakemq message get broker-a.5b1f3c6e0d0a-1.0
    lakemq message get broker-a.5b1f3c6e0d0a-1.0 --nameservers http://127.0.0.1:9876
    """
    with connect_all(context, broker, nameservers) as brokers:
        content = encode_message(the_one_of(brokers, message_id).message(message_id))
    if as_json:
        write_line(orjson.dumps(content).decode())
        return
    table = Table.grid(padding=(0, 2))
    for name, value in content.items():
        text = value if isinstance(value, str) else orjson.dumps(value).decode()
        table.add_row(Text(name, "bold"), Text(shown.plain(text)))
    stdout().print(table)


@app.command()
def search(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(help="The topic.")],
    key: Annotated[str | None, typer.Option("--key", help="Only messages with this key.")] = None,
    tags: Tags = "*",
    sql: Filter = None,
    begin: Annotated[str | None, typer.Option("--begin", metavar="TIME", help="Stored at this time or later.")] = None,
    end: Annotated[str | None, typer.Option("--end", metavar="TIME", help="Stored before this time.")] = None,
    count_max: Annotated[int, typer.Option("--max", min=1, max=10_000, help="At most this many messages.")] = 32,
    as_json: AsJson = False,
    broker: Broker = None,
    nameservers: Nameservers = None,
) -> None:
    """Find messages of a topic, newest first.

    --key uses the index over log and lake. Without it, the whole topic is read.

    \b
    lakemq message search orders --key 42
    lakemq message search orders --tags paid --filter "amount > 100" --begin 2026-12-24T18:00
    lakemq message search orders --end 2026-12-25 --max 100
    lakemq message search orders --key 42 --nameservers http://127.0.0.1:9876
    """
    from lakemq.cli.search import SearchQuery, together
    from lakemq.cli.search import search as look

    begin_ms = None if begin is None else moment_ms(begin, "--begin")
    end_ms = None if end is None else moment_ms(end, "--end")
    wanted = SearchQuery(key, tags, sql, begin_ms, end_ms, count_max)
    with connect_all(context, broker, nameservers) as brokers:
        messages, complete = together(ask_each(brokers, lambda client: look(client, topic, wanted)), wanted)
    if as_json:
        for message in messages:
            shown.write_json(message)
    elif messages:
        stdout().print(shown.message_table(messages))
    if not as_json:
        note(f"{len(messages):,} found")
    if not complete:
        note("lakemq: not all of the log was looked at, so there may be older ones; lakemq sql finds them")


@app.command()
def recall(
    context: typer.Context,
    message_id: Id,
    as_json: AsJson = False,
    broker: Broker = None,
    nameservers: Nameservers = None,
) -> None:
    """Recall a scheduled message before it is delivered.

    \b
    lakemq message recall broker-a.5b1f3c6e0d0a-1.42
    lakemq message recall broker-a.5b1f3c6e0d0a-1.42 --nameservers http://127.0.0.1:9876
    """
    with connect_all(context, broker, nameservers) as brokers:
        the_one_of(brokers, message_id).recall(message_id)
    if as_json:
        write_line(orjson.dumps({"message_id": message_id, "recalled": True}).decode())
    else:
        note(f"recalled {message_id}: it will not be delivered")
