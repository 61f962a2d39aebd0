"""`lakemq erase`."""

from __future__ import annotations

from typing import Annotated

import typer

from lakemq.cli.maintenance import run_quietly, show_run
from lakemq.cli.options import AsJson, Broker, LakeDir, broker_url, settings_of


def erase(
    context: typer.Context,
    where: Annotated[
        str,
        typer.Option("--where", metavar="CONDITION", help="SQL condition over the columns of messages, and key."),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show how many messages match.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    lake: LakeDir = None,
    broker: Broker = None,
    as_json: AsJson = False,
) -> None:
    """Erase messages for good, from the log and from the lake.

    Their copies (retries, dead letters, deliveries, replays) are erased too. Positions and offsets of all other
    messages stay the same. Older versions of the tables can't be read any more.

    \b
    lakemq erase --where "key = 'user-17'" --dry-run
    lakemq erase --where "topic = 'orders' AND key = 'user-17'" --yes
    """
    settings = settings_of(context, lake__dir=lake)
    url = broker_url(context, broker)
    if not dry_run and not yes:
        typer.confirm("Nothing brings them back. Erase?", abort=True, err=True)
    show_run(run_quietly(settings, url, "erase", {"where": where, "dry_run": dry_run}), as_json)
