"""`lakemq console`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from lakemq.cli.lifeline import end_with_parent
from lakemq.cli.options import Broker, Host, Nameservers, Parent, broker_url, name_servers, settings_of
from lakemq.cli.output import fail
from lakemq.cli.supervisor import REFUSED
from lakemq.model.errors import LakemqError, SettingsError
from lakemq.model.names import why_not_asked


def console(
    context: typer.Context,
    host: Host = None,
    port: Annotated[
        int | None,
        typer.Option("--port", help="Port to listen on. 0: any free port.", show_default="8088"),
    ] = None,
    broker: Broker = None,
    nameservers: Nameservers = None,
    parent_pid: Parent = None,
) -> None:
    """Run the web console until Ctrl-C.

    Its pages show and change topics, messages and groups. Users sign in with a token and can do there what that user
    may. It keeps nothing on disk. lakemq up runs one too.

    \b
    lakemq console --port 8088
    lakemq console --broker http://127.0.0.1:8080
    lakemq console --host 127.0.0.1 --nameservers http://127.0.0.1:9876
    """
    end_with_parent(parent_pid)
    try:
        settings = settings_of(context, console__host=host, console__port=port)
        servers = name_servers(context, broker, nameservers)
        brokers = _registered(servers) if servers else broker_url(context, broker).split(",")
        from lakemq.console import serve

        serve(settings, brokers)
    except LakemqError as error:
        if parent_pid is None or not error.lasting:
            raise
        sys.exit(fail(error.detail, REFUSED))


def _registered(servers: list[str]) -> list[str]:
    """Those that the name servers know now, those who lead first. Raises `LakemqError`."""
    from lakemq.cli.brokers import ask_fleet

    found = ask_fleet(servers, lambda asked: asked.replicas())
    known = sorted(found, key=lambda each: (each.role != "primary", each.broker, each.replica))
    addresses = [each.address for each in known if not why_not_asked(servers, each.address)]
    if not addresses:
        raise SettingsError("the name servers know no broker that may be asked")
    return addresses
