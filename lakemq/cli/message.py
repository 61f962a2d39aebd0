"""`lakemq message get | search | why | recall`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import orjson
import typer
from rich.table import Table
from rich.text import Text

from lakemq.cli import shown
from lakemq.cli.brokers import ask_each, connect_all, the_one_of
from lakemq.cli.delay import moment_ms
from lakemq.cli.options import AsJson, Broker, Filter, Nameservers, Tags
from lakemq.cli.output import note, remark, stdout, write_json, write_line
from lakemq.client.message import encode_message

if TYPE_CHECKING:
    from lakemq.cli.search import Found
    from lakemq.client.http import HttpClient

app = typer.Typer(no_args_is_help=True, help="Find messages, see why one was not delivered, recall scheduled ones.")
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
        write_json(content)
        return
    table = Table.grid(padding=(0, 2))
    for name, value in content.items():
        text = value if isinstance(value, str) else orjson.dumps(value).decode()
        table.add_row(Text(name, "bold"), Text(shown.plain(text)))
    stdout().print(table)


@app.command()
def search(
    context: typer.Context,
    topic: Annotated[str | None, typer.Argument(help="The topic. With --key: all topics, by default.")] = None,
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
    """Find messages of a topic, or by their key in all topics, newest first.

    --key uses the index over log and lake, and also finds messages that wait: delayed ones, and halves of open
    transactions. Without it, the whole topic is read.

    \b
    lakemq message search orders --key 42
    lakemq message search --key 42
    lakemq message search orders --tags paid --filter "amount > 100" --begin 2026-12-24T18:00
    lakemq message search orders --end 2026-12-25 --max 100
    lakemq message search orders --key 42 --nameservers http://127.0.0.1:9876
    """
    from lakemq.cli.search import SearchQuery, search_by_key, together
    from lakemq.cli.search import search as look

    if topic is None and key is None:
        raise typer.BadParameter("give a topic, or --key KEY to search all topics", param_hint="TOPIC")
    begin_ms = None if begin is None else moment_ms(begin, "--begin")
    end_ms = None if end is None else moment_ms(end, "--end")
    wanted = SearchQuery(key, tags, sql, begin_ms, end_ms, count_max)
    with connect_all(context, broker, nameservers) as brokers:

        def ask(client: HttpClient) -> Found:
            return (
                look(client, topic, wanted) if key is None and topic else search_by_key(client, topic, wanted, "TOPIC")
            )

        found = together(ask_each(brokers, ask), wanted)
    _show_found(found, as_json, with_topic=topic is None)


def _show_found(found: Found, as_json: bool, with_topic: bool) -> None:
    from lakemq.cli.waiting import text_of

    if as_json:
        for message in found.messages:
            shown.write_message(message)
        for each in found.waiting:
            write_json(each._asdict())
    elif found.messages:
        stdout().print(shown.message_table(found.messages, with_topic=with_topic))
    if not as_json:
        waiting = f", and {len(found.waiting):,} waiting" if found.waiting else ""
        note(f"{len(found.messages):,} found{waiting}")
        for each in found.waiting:
            write_line(shown.plain(text_of(each)))
    if not found.complete:
        remark("not all of the log was looked at, so there may be older ones; lakemq sql finds them")
    for said in found.notes:
        remark(said)


@app.command()
def why(
    context: typer.Context,
    message_id: Annotated[
        str | None, typer.Argument(metavar="[MESSAGE_ID]", help="Id of the message. Or give --key.")
    ] = None,
    topic: Annotated[str | None, typer.Option("--topic", help="Topic of the key; all topics, by default.")] = None,
    key: Annotated[str | None, typer.Option("--key", help="The messages with this key, newest first.")] = None,
    group: Annotated[str | None, typer.Option("--group", help="Only for this consumer group.")] = None,
    count_max: Annotated[int, typer.Option("--max", min=1, max=100, help="At most this many messages of the key.")] = 5,
    pages_max: Annotated[
        int, typer.Option("--pages", min=1, max=10_000, help="Read at most this many pages of the log for a message.")
    ] = 64,
    as_json: AsJson = False,
    broker: Broker = None,
    nameservers: Nameservers = None,
) -> None:
    """Say why a message was, or was not, delivered to each group.

    It also shows what happened to the message so far. A page of the log is half a second of reading, at most. Exit
    code 1 if there is no such message.

    \b
    lakemq message why broker-a.5b1f3c6e0d0a-1.0
    lakemq message why broker-a.5b1f3c6e0d0a-1.0 --group billing
    lakemq message why --topic orders --key 42
    lakemq message why --key 42 --max 20 --pages 100 --json
    lakemq message why broker-a.5b1f3c6e0d0a-1.0 --nameservers http://127.0.0.1:9876
    """
    from lakemq.cli.search import SearchQuery
    from lakemq.cli.why import answer, check_id, ids_of

    if (message_id is None) == (key is None) or (topic is not None and key is None):
        raise typer.BadParameter("give a message's id, or --key KEY, with --topic TOPIC or without", param_hint="why")
    with connect_all(context, broker, nameservers) as brokers:
        if key is None:
            ids = [check_id(message_id or "")]
        else:
            ids = ids_of(brokers, topic, SearchQuery(key, "*", None, None, None, count_max))
        for each in ids:
            answer(the_one_of(brokers, each), each, group, pages_max, as_json)


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
        write_json({"message_id": message_id, "recalled": True})
    else:
        note(f"recalled {message_id}: it will not be delivered")
