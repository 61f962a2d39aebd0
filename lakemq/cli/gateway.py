"""`lakemq gateway`."""

from __future__ import annotations

import typer

from lakemq.cli.lifeline import end_with_parent
from lakemq.cli.options import BrokerName, DataDir, Flush, Host, Parent, Port, settings_of


def gateway(
    context: typer.Context,
    data_dir: DataDir = None,
    host: Host = None,
    port: Port = None,
    broker_name: BrokerName = None,
    flush: Flush = None,
    parent_pid: Parent = None,
) -> None:
    """Run the gateway alone, until Ctrl-C. It needs neither Java nor Spark.

    \b
    lakemq gateway --data-dir /var/lib/lakemq
    lakemq gateway --port 9000 --flush sync
    """
    end_with_parent(parent_pid)
    settings = settings_of(
        context,
        storage__data_dir=data_dir,
        gateway__host=host,
        gateway__port=port,
        broker__name=broker_name,
        storage__flush=flush,
    )
    from lakemq.gateway import serve

    serve(settings)
