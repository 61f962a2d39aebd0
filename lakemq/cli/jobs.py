"""`lakemq jobs`."""

from __future__ import annotations

import signal
import sys
from typing import Annotated

import typer

from lakemq.cli.lifeline import end_with_parent
from lakemq.cli.options import Broker, LakeDir, Nameservers, Parent, broker_url, name_servers, settings_of
from lakemq.cli.output import fail
from lakemq.cli.supervisor import REPLACED
from lakemq.logs import set_up


def jobs(
    context: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME", help="Name of a job: lake, maintenance, delay, transaction or retry.", show_default="all"
        ),
    ] = None,
    broker: Broker = None,
    nameservers: Nameservers = None,
    lake: LakeDir = None,
    parent_pid: Parent = None,
) -> None:
    """Run the Spark jobs that route messages and write the lake, until Ctrl-C.

    If other jobs take over the lake, these end with exit code 79.

    \b
    lakemq jobs
    lakemq jobs --broker http://127.0.0.1:9000 --lake /srv/lake
    lakemq jobs delay transaction retry
    lakemq jobs --nameservers http://127.0.0.1:9876 --lake /srv/lake
    """
    end_with_parent(parent_pid, signal.SIGKILL)  # all that a job wrote it wrote exactly once
    settings = settings_of(context, lake__dir=lake)
    set_up(settings.log.format, settings.log.level)
    url = broker_url(context, broker)
    from lakemq.jobs.session.heaps import choose_arrow_pool

    choose_arrow_pool()  # the next imports bring Arrow
    from lakemq.jobs.errors import LakeTaken
    from lakemq.jobs.process.run import run_jobs

    try:
        run_jobs(settings, url, names or [], name_servers(context, broker, nameservers))
    except LakeTaken as error:
        sys.exit(fail(error.detail, REPLACED))
