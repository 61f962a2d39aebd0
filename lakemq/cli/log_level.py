"""`lakemq broker log-level`."""

from __future__ import annotations

from typing import Annotated, Any

import orjson
import typer

from lakemq.cli import shown
from lakemq.cli.delay import milliseconds
from lakemq.cli.options import AsJson, Broker, Nameservers
from lakemq.cli.output import note, stdout, write_line
from lakemq.cli.replicas import Replica, find_replicas
from lakemq.model.errors import LakemqError

AS_BEFORE = "as-before"
DEBUG_MS = 600_000
"""So long what is written to find a fault is written, where nothing else is said."""


def log_level(
    context: typer.Context,
    logger: Annotated[
        str | None, typer.Argument(metavar="[LOGGER]", help="Which: lakemq is all of them, lakemq.gateway a part.")
    ] = None,
    level: Annotated[
        str | None, typer.Argument(metavar="[LEVEL]", help=f"DEBUG, INFO, WARNING, ERROR, or {AS_BEFORE}.")
    ] = None,
    duration: Annotated[
        str | None,
        typer.Option("--for", metavar="DURATION", help="So long, and then as before.", show_default="10m for DEBUG"),
    ] = None,
    as_json: AsJson = False,
    broker: Broker = None,
    nameservers: Nameservers = None,
) -> None:
    """Show what brokers write to their logs, or have them write more or less, while they run.

    Each replica that is named, or that the name servers know, is told so. It takes a right to change the cluster.

    \b
    lakemq broker log-level
    lakemq broker log-level lakemq.gateway DEBUG --for 5m
    lakemq broker log-level lakemq.web.told DEBUG --broker http://127.0.0.1:9000
    lakemq broker log-level lakemq as-before --nameservers http://127.0.0.1:9876
    """
    if (logger is None) != (level is None):
        raise typer.BadParameter("a logger and its level: lakemq DEBUG", param_hint="LOGGER LEVEL")
    if level is None and duration is not None:
        raise typer.BadParameter("it is for a level that is changed", param_hint="--for")
    wanted = None if level is None or level.lower() == AS_BEFORE else level.upper()
    for_ms = milliseconds(duration, "--for") if duration is not None else DEBUG_MS if wanted == "DEBUG" else None
    replicas = find_replicas(context, broker, nameservers)
    found = [(each, _ask(each, None if logger is None else {logger: wanted}, for_ms)) for each in replicas]
    for each, said in found:
        if isinstance(said, str):
            note(f"lakemq: {each.address}: {said}")
        elif as_json:
            where = {"broker": each.broker, "replica": each.number, "address": each.address}
            write_line(orjson.dumps({**where, **said}).decode())
    if not as_json:
        _show([(each, said) for each, said in found if not isinstance(said, str)])
    if any(isinstance(said, str) for _, said in found):
        raise typer.Exit(1)


def _ask(replica: Replica, levels: dict[str, str | None] | None, for_ms: int | None) -> dict[str, Any] | str:
    """What it says its levels are now, or why it says nothing."""
    from lakemq.client.http import HttpClient

    if replica.problem:
        return replica.problem
    try:
        with HttpClient(replica.address) as client:
            return client.log_levels() if levels is None else client.set_log_levels(levels, for_ms)
    except LakemqError as error:
        return error.detail


def _show(found: list[tuple[Replica, dict[str, Any]]]) -> None:
    table = shown.table("broker", "replica", "logger", "level", "back in")
    for replica, said in found:
        for logger, level in said["levels"].items():
            back_ms = said["back_in_ms"].get(logger)
            back = "" if back_ms is None else f"{back_ms / 1000:.0f} s"
            table.add_row(shown.name(shown.plain(replica.broker)), str(replica.number), logger, level, back)
    stdout().print(table)
