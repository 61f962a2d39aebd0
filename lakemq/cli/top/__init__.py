"""`lakemq top`."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from lakemq.cli.options import Broker, Nameservers, broker_url, name_servers


def top(
    context: typer.Context,
    interval: Annotated[float, typer.Option("--interval", min=0.2, max=3600, help="Seconds between updates.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print one page and exit.")] = False,
    broker: Broker = None,
    nameservers: Nameservers = None,
) -> None:
    """Watch brokers live: roles, rates, topics and the lag of groups.

    Keys: t sorts topics by the next column, g groups, l groups by their lag; space refreshes, q quits. A dash is an
    unknown value. Without a terminal it prints one page after the other.

    \b
    lakemq top --once
    lakemq top --once --interval 0.5 --broker http://127.0.0.1:9000
    lakemq top --once --nameservers http://127.0.0.1:9876
    """
    from lakemq.cli.brokers import ask_fleet
    from lakemq.cli.top.screen import may_be_taken, print_pages, show
    from lakemq.cli.top.watcher import Place, Watcher
    from lakemq.model.names import why_not_asked

    servers = name_servers(context, broker, nameservers)
    named = [] if servers else broker_url(context, broker).split(",")

    def find() -> list[Place]:
        if not servers:
            return [Place(address) for address in named]
        found = ask_fleet(servers, lambda asked: asked.replicas())
        return [
            Place(each.address, each.broker, each.replica, why_not_asked(servers, each.address) or "") for each in found
        ]

    watcher = Watcher(find)
    watcher.begin()
    if not once and may_be_taken():
        show(watcher, interval)
        return
    try:
        print_pages(watcher, interval, once)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return
    except BrokenPipeError:  # whoever read it has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
