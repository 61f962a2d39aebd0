"""`lakemq maintenance list | run | cancel | history`."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer
from rich.table import Table

from lakemq.cli.options import AsJson, Broker, LakeDir, broker_url, settings_of
from lakemq.cli.output import remark, stdout, write_json, write_line
from lakemq.cli.quiet import STDERR, quiet_stderr
from lakemq.model.safe_text import safe_json

if TYPE_CHECKING:
    from lakemq.jobs.maintenance.runs import Run
    from lakemq.settings import Settings

app = typer.Typer(no_args_is_help=True, help="Show and run the lake's maintenance jobs.")


@app.command("list")
def list_jobs(context: typer.Context, lake: LakeDir = None, as_json: AsJson = False) -> None:
    """List the jobs, when each is due and how its last run ended.

    \b
    lakemq maintenance list
    """
    settings = settings_of(context, lake__dir=lake)
    from lakemq.jobs.maintenance.overview import overview

    jobs = overview(settings)
    if as_json:
        for job in jobs:
            write_json(job)
        return
    table = Table("job", "what it does", "schedule", "next", "last run", "result")
    for job in jobs:
        last: dict[str, Any] = job["last"] or {}
        table.add_row(
            job["job"],
            job["about"],
            job["schedule"] or "on demand",
            _moment(job["next_ms"]),
            _moment(last.get("started_at")),
            last.get("result", ""),
        )
    stdout().print(table)


@app.command()
def run(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the job.")],
    table: Annotated[
        str | None, typer.Option("--table", metavar="TABLE", help="Only this table (index-rebuild).")
    ] = None,
    lake: LakeDir = None,
    broker: Broker = None,
    as_json: AsJson = False,
) -> None:
    """Run a job now. Exit code 1 if it fails or verify finds differences.

    The running jobs (lakemq up, lakemq jobs) run it. If there are none, this starts Spark.

    \b
    lakemq maintenance run optimize
    lakemq maintenance run verify --json
    lakemq maintenance run index-rebuild --table message_index
    """
    settings = settings_of(context, lake__dir=lake)
    url = broker_url(context, broker)
    show_run(run_quietly(settings, url, name, {} if table is None else {"table": table}), as_json)


@app.command()
def cancel(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Name of the job. Without it, any job.")] = None,
    lake: LakeDir = None,
) -> None:
    """Cancel the current run and those that are waiting.

    What the run has committed stays. It can be run again.

    \b
    lakemq maintenance cancel
    lakemq maintenance cancel optimize
    """
    settings = settings_of(context, lake__dir=lake)
    from lakemq.jobs.maintenance.command import cancel_job

    cancelled, withdrawn = cancel_job(settings, name)
    if cancelled is not None:
        write_line(f"{cancelled}: cancelled")
    if withdrawn:
        write_line(f"cancelled requests that were waiting: {withdrawn}")
    if cancelled is None and not withdrawn:
        remark("nothing of that kind was under way")


@app.command()
def history(
    context: typer.Context,
    job: Annotated[str | None, typer.Option("--job", metavar="NAME", help="Only this job.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most this many runs.")] = 20,
    lake: LakeDir = None,
    as_json: AsJson = False,
) -> None:
    """Show the last runs, newest first.

    \b
    lakemq maintenance history --job optimize --limit 5
    """
    settings = settings_of(context, lake__dir=lake)
    from lakemq.jobs.maintenance.runs import read_runs

    runs = read_runs(settings.lake.dir, job, limit)
    if as_json:
        for each in runs:
            write_json(each.as_json())
        return
    table = Table("started", "job", "by", "seconds", "tries", "result", "files", "MiB", "what")
    for each in runs:
        table.add_row(
            _moment(each.started_at),
            each.job,
            each.started_by,
            f"{(each.ended_at - each.started_at) / 1000:.1f}",
            str(each.attempts),
            each.result,
            f"{each.files_before:,} → {each.files_after:,}",
            f"{each.bytes_after / 1024**2:,.1f}",
            each.error or orjson.dumps(each.detail).decode(),
        )
    stdout().print(table)


def run_quietly(settings: Settings, url: str, name: str, parameters: dict[str, Any]) -> Run:
    """Runs the job; what it says goes to stderr at once, what a JVM says there does not."""
    with os.fdopen(os.dup(STDERR), "w") as terminal, quiet_stderr():
        from lakemq.jobs.maintenance.command import run_job

        def say(line: str) -> None:
            terminal.write(f"lakemq: {line}\n")
            terminal.flush()

        return run_job(settings, url, name, parameters, say)


def show_run(done: Run, as_json: bool) -> None:
    """Writes what the run did; ends the command with 1 when it failed or found differences."""
    if as_json:
        write_json(done.as_json())
    else:
        seconds = (done.ended_at - done.started_at) / 1000
        write_line(f"{done.job}: {done.result} in {seconds:.1f} s, {done.attempts} attempt(s)")
        write_line(f"files: {done.files_before:,} before, {done.files_after:,} after")
        for name, value in done.detail.items():
            write_line(f"{name}: {safe_json(orjson.dumps(value).decode())}")
        if done.error is not None:
            remark(done.error)
    if done.result != "done":
        raise typer.Exit(1)


def _moment(ms: int | None) -> str:
    return "" if ms is None else datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
