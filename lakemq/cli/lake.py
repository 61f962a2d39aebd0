"""`lakemq lake adopt`."""

from __future__ import annotations

import typer

from lakemq.cli.maintenance import run_quietly, show_run
from lakemq.cli.options import AsJson, Broker, LakeDir, broker_url, settings_of

app = typer.Typer(no_args_is_help=True, help="The lake as a whole.")


@app.callback()
def lake() -> None:
    """The lake as a whole."""


@app.command()
def adopt(
    context: typer.Context,
    lake: LakeDir = None,
    broker: Broker = None,
    as_json: AsJson = False,
) -> None:
    """Let a lake go on with a broker whose log is a new one: data folders that were emptied, or replaced.

    What the lake holds of the old log stays, under a broker's name of its own (broker-a~1f2e3d4c): its positions
    and offsets are not those of the new log. Without this the jobs refuse such a lake. Where the log is the
    lake's, nothing is done.

    \b
    lakemq lake adopt
    lakemq lake adopt --lake lake --broker http://127.0.0.1:9000
    """
    settings = settings_of(context, lake__dir=lake)
    show_run(run_quietly(settings, broker_url(context, broker), "adopt", {}), as_json)
