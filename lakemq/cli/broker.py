"""`lakemq broker list`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson
import typer
from rich.table import Table

from lakemq.cli.brokers import ask_fleet
from lakemq.cli.options import AsJson, Broker, Nameservers, broker_url, name_servers
from lakemq.cli.output import stdout, write_line

app = typer.Typer(no_args_is_help=True, help="Look at the brokers of a fleet.")
_COLUMNS = ("broker", "replica", "role", "address", "epoch", "permission", "topics", "heard of")


@app.callback()
def broker() -> None:
    """Look at the brokers of a fleet."""


@app.command("list")
def list_brokers(
    context: typer.Context, as_json: AsJson = False, broker: Broker = None, nameservers: Nameservers = None
) -> None:
    """List the brokers that the name servers know, or that are named: where they are, and who is primary.

    \b
    lakemq broker list
    lakemq broker list --nameservers http://127.0.0.1:9876
    lakemq broker list --json
    """
    named = name_servers(context, broker, nameservers)
    if named:
        replicas = [each._asdict() for each in ask_fleet(named, lambda asked: asked.replicas())]
    else:
        replicas = list(_one_by_one(broker_url(context, broker).split(",")))
    if as_json:
        for each in replicas:
            write_line(orjson.dumps(each).decode())
        return
    table = Table(*_COLUMNS)
    for each in replicas:
        seen_ms = each.get("seen_ms_ago")
        heard = "" if seen_ms is None else f"{seen_ms / 1000:.0f} s ago"
        said = [each["broker"], each["replica"], each["role"], each["address"], each["epoch"]]
        table.add_row(*map(str, (*said, each.get("permission", ""), each.get("topics", ""))), heard)
    stdout().print(table)


def _one_by_one(addresses: list[str]) -> Iterable[dict[str, Any]]:
    from lakemq.client.http import HttpClient

    for address in addresses:
        with HttpClient(address) as client:
            said = client.broker()
        yield {"broker": said["name"], "replica": 0, "address": address, "role": said["role"], "epoch": said["epoch"]}
