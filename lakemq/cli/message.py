"""`lakemq message get`, and how a message looks on a terminal."""

from __future__ import annotations

from typing import Annotated

import orjson
import typer
from rich.table import Table

from lakemq.cli.options import AsJson, Broker, connect
from lakemq.cli.output import stdout, write_line
from lakemq.client.message import encode_message

app = typer.Typer(no_args_is_help=True, help="Look at single messages.")


@app.callback()
def _messages() -> None:  # pyright: ignore[reportUnusedFunction]  (typer: get stays a subcommand)
    pass


@app.command()
def get(
    context: typer.Context,
    message_id: Annotated[str, typer.Argument(help="As produce and pull tell it.")],
    as_json: AsJson = False,
    broker: Broker = None,
) -> None:
    """Show one message by its id.

    \b
    lakemq message get broker-a.0
    """
    with connect(context, broker) as client:
        content = encode_message(client.message(message_id))
    if as_json:
        write_line(orjson.dumps(content).decode())
        return
    table = Table.grid(padding=(0, 2))
    for name, value in content.items():
        text = value if isinstance(value, str) else orjson.dumps(value).decode()
        table.add_row(name, text)
    stdout().print(table, markup=False)
