"""`lakemq gateway`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from lakemq.cli.gateway_options import Given, takes_gateway_options
from lakemq.cli.lifeline import end_with_parent
from lakemq.cli.options import settings_of
from lakemq.cli.output import fail
from lakemq.cli.supervisor import REFUSED
from lakemq.model.errors import LakemqError

if TYPE_CHECKING:
    from lakemq.settings import Settings


@takes_gateway_options
def gateway(context: typer.Context, given: Given, parent_pid: int | None) -> None:
    """Run the gateway alone until Ctrl-C. It needs no Java.

    Messages that have left the log are served from the lake.

    \b
    lakemq gateway --data-dir /var/lib/lakemq --lake /srv/lake
    lakemq gateway --host 127.0.0.1 --port 9000 --broker-name broker-b --flush sync
    lakemq gateway --nameservers http://127.0.0.1:9876 --advertise http://127.0.0.1:8080
    lakemq gateway --port 9000 --broker-name broker-b --data-dir /var/lib/lakemq-b --nameservers http://127.0.0.1:9876
    """
    end_with_parent(parent_pid)
    try:
        _serve(settings_of(context, **given))
    except LakemqError as error:
        if parent_pid is None or not error.lasting:
            raise
        sys.exit(fail(error.detail, REFUSED))


def _serve(settings: Settings) -> None:
    from lakemq.gateway import serve

    serve(settings)
