"""`lakemq lake adopt`."""

from __future__ import annotations

import typer

from lakemq.cli.maintenance import run_quietly, show_run
from lakemq.cli.options import AsJson, Broker, LakeDir, broker_url, settings_of

app = typer.Typer(no_args_is_help=True, help="Change the lake as a whole.")


@app.callback()
def lake() -> None:
    """Change the lake as a whole."""


@app.command()
def adopt(
    context: typer.Context,
    lake: LakeDir = None,
    broker: Broker = None,
    as_json: AsJson = False,
) -> None:
    """Let a lake continue with a new log of its broker.

    Use it after a data folder was emptied or replaced; without it the jobs refuse the lake. Messages of the old log
    stay, under another broker name (broker-a~1f2e3d4c), as the positions and offsets of the new log start anew. If
    the log is the lake's own, nothing happens.

    \b
    lakemq lake adopt
    lakemq lake adopt --lake lake --broker http://127.0.0.1:9000
    """
    settings = settings_of(context, lake__dir=lake)
    show_run(run_quietly(settings, broker_url(context, broker), "adopt", {}), as_json)
