"""`lakemq nameserver`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from lakemq.cli.lifeline import end_with_parent
from lakemq.cli.options import Host, Parent, settings_of
from lakemq.cli.output import fail
from lakemq.cli.supervisor import REFUSED
from lakemq.model.errors import LakemqError


def nameserver(
    context: typer.Context,
    host: Host = None,
    port: Annotated[
        int | None,
        typer.Option("--port", help="Port to listen on. 0: any free port.", show_default="9876"),
    ] = None,
    parent_pid: Parent = None,
) -> None:
    """Run a name server, which tells clients where topics are, until Ctrl-C.

    Brokers register with it. It keeps nothing on disk. Start as many as you like: they are independent of each other.

    \b
    lakemq nameserver --port 9876
    lakemq nameserver --host 127.0.0.1 --port 9877
    """
    end_with_parent(parent_pid)
    try:
        settings = settings_of(context, nameserver__host=host, nameserver__port=port)
        from lakemq.nameserver import serve

        serve(settings)
    except LakemqError as error:
        if parent_pid is None or not error.lasting:
            raise
        sys.exit(fail(error.detail, REFUSED))
