"""`lakemq broker log-level`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakemq.cli import shown
from lakemq.cli.delay import milliseconds
from lakemq.cli.options import AsJson, Broker, Nameservers
from lakemq.cli.output import remark, stdout, write_json
from lakemq.cli.replicas import Replica, find_replicas
from lakemq.model.errors import LakemqError
from lakemq.model.primary import PRIMARY

if TYPE_CHECKING:
    from lakemq.client.http import HttpClient

AS_BEFORE = "as-before"
TOLD_S = 10.0
LOOK_S = 0.3
DEBUG_MS = 600_000
"""So long what is written to find a fault is written, where nothing else is said."""


def log_level(
    context: typer.Context,
    logger: Annotated[
        str | None, typer.Argument(metavar="[LOGGER]", help="Logger: lakemq for all, lakemq.gateway for a part.")
    ] = None,
    level: Annotated[
        str | None, typer.Argument(metavar="[LEVEL]", help=f"DEBUG, INFO, WARNING, ERROR, or {AS_BEFORE}.")
    ] = None,
    duration: Annotated[
        str | None,
        typer.Option("--for", metavar="DURATION", help="Change it back after this time.", show_default="10m for DEBUG"),
    ] = None,
    jobs: Annotated[
        bool, typer.Option("--jobs", help="For the jobs of the broker, which follow within seconds.")
    ] = False,
    as_json: AsJson = False,
    broker: Broker = None,
    nameservers: Nameservers = None,
) -> None:
    """Show or change the log level of running brokers and jobs.

    It applies to each replica that --broker names or the name servers know. It takes the right to change the cluster.

    \b
    lakemq broker log-level
    lakemq broker log-level lakemq.gateway DEBUG --for 5m
    lakemq broker log-level lakemq.web.told DEBUG --broker http://127.0.0.1:9000
    lakemq broker log-level lakemq as-before --nameservers http://127.0.0.1:9876
    lakemq broker log-level lakemq.jobs.lake DEBUG --jobs
    """
    if (logger is None) != (level is None):
        raise typer.BadParameter("a logger and its level: lakemq DEBUG", param_hint="LOGGER LEVEL")
    if level is None and duration is not None:
        raise typer.BadParameter("it is for a level that is changed", param_hint="--for")
    wanted = None if level is None or level.lower() == AS_BEFORE else level.upper()
    for_ms = milliseconds(duration, "--for") if duration is not None else DEBUG_MS if wanted == "DEBUG" else None
    replicas = find_replicas(context, broker, nameservers)
    levels = None if logger is None else {logger: wanted}
    found = [(each, _ask(each, levels, for_ms, jobs)) for each in replicas if not jobs or each.of("role") == PRIMARY]
    for each, said in found:
        if isinstance(said, str):
            remark(f"{each.address}: {said}")
        elif as_json:
            where = {"broker": each.broker, "replica": each.number, "address": each.address}
            write_json({**where, **said})
    if not as_json and (shows := [(each, said) for each, said in found if not isinstance(said, str)]):
        _show(shows)
    if any(isinstance(said, str) for _, said in found):
        raise typer.Exit(1)


def _ask(
    replica: Replica, levels: dict[str, str | None] | None, for_ms: int | None, jobs: bool
) -> dict[str, Any] | str:
    """What it says its levels are now, and those of its jobs, or why it says nothing."""
    from lakemq.client.http import HttpClient

    if replica.problem:
        return replica.problem
    try:
        with HttpClient(replica.address) as client:
            if levels is None:
                return client.log_levels()
            if not jobs:
                return client.set_log_levels(levels, for_ms)
            return _told(client, client.set_log_levels(levels, for_ms, "jobs")["change"])
    except LakemqError as error:
        return error.detail


def _told(client: HttpClient, change: str) -> dict[str, Any]:
    """What it says once all of its jobs have taken the change, or after a while."""
    end = time.monotonic() + TOLD_S
    while True:
        said = client.log_levels()
        if all(each["change"] == change for each in said["jobs"]) and (said["jobs"] or time.monotonic() > end):
            break
        if time.monotonic() > end:
            remark("not all jobs have taken it yet")
            break
        time.sleep(LOOK_S)
    if not said["jobs"]:
        remark("no jobs are running: jobs that start meanwhile get these levels")
    for each in said["jobs"]:
        for why in each["refused"]:
            remark(f"{each['process']}: {why}")
    return said


def _show(found: list[tuple[Replica, dict[str, Any]]]) -> None:
    table = shown.table("broker", "process", "logger", "level", "back in")
    for replica, said in found:
        of_jobs = [(f"jobs {shown.plain(each['process'])}", each) for each in said.get("jobs", ())]
        for process, levels in [(f"replica {replica.number}", said), *of_jobs]:
            for logger, level in levels["levels"].items():
                back_ms = levels["back_in_ms"].get(logger)
                back = "" if back_ms is None else f"{back_ms / 1000:.0f} s"
                table.add_row(shown.name(shown.plain(replica.broker)), process, logger, level, back)
    stdout().print(table)
