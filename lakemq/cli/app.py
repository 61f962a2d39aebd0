"""The tree of commands. Each is in a file of its own; here they are only put together."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.main

from lakemq import __version__
from lakemq.cli import (
    acl,
    backup,
    broker,
    clients,
    console,
    consume,
    dead_letters,
    demo,
    doctor,
    erase,
    fleet,
    gateway,
    group,
    jobs,
    lake,
    log,
    maintenance,
    message,
    nameserver,
    notebook,
    produce,
    pull,
    replay,
    sql,
    top,
    topic,
    up,
    user,
)
from lakemq.cli.extras import Commands
from lakemq.cli.help_page import use_help_pages
from lakemq.cli.options import Global, token_of
from lakemq.cli.output import write_line

app = typer.Typer(
    name="lakemq",
    cls=Commands,
    rich_markup_mode="rich",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        write_line(f"lakemq {__version__}")
        raise typer.Exit


@app.callback()
def lakemq(
    context: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="File of settings (TOML). The environment (LAKEMQ_SECTION__KEY) and options override it.",
            show_default="conf/lakemq.toml, if it exists",
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="File with the token to sign in with.",
            show_default="LAKEMQ_TOKEN, LAKEMQ_TOKEN_FILE, or the administrator's token of this machine",
        ),
    ] = None,
    _: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """A message queue on a lakehouse: a log that you produce to, pull from and query with SQL.

    \b
    Start the gateway and the jobs, and leave them running:
      lakemq up
    In another terminal, put a message in and take it out again:
      lakemq produce greetings "hello" --tag first
      lakemq pull greetings
    And, some seconds later, from the lake:
      lakemq sql "SELECT topic, count(*) FROM messages WHERE NOT is_system(topic) GROUP BY topic"
    Options for all commands may stand before the command's name, or anywhere after it:
      lakemq --config conf/lakemq.toml topic list
      lakemq topic list --token-file data/admin.token
    """
    context.obj = Global(config)
    if token_file is not None:
        context.with_resource(token_of(token_file))


app.command()(up.up)
app.command()(gateway.gateway)
app.command()(jobs.jobs)
app.command()(nameserver.nameserver)
app.command()(console.console)
app.add_typer(broker.app, name="broker")
app.add_typer(topic.app, name="topic")
app.command()(produce.produce)
app.command()(pull.pull)
app.command()(consume.consume)
app.add_typer(message.app, name="message")
app.add_typer(group.app, name="group")
app.add_typer(dead_letters.app, name="dead-letters")
app.command()(clients.clients)
app.add_typer(user.app, name="user")
app.add_typer(acl.app, name="acl")
app.command()(sql.sql)
app.command()(replay.replay)
app.add_typer(notebook.app, name="notebook")
app.add_typer(log.app, name="log")
app.add_typer(maintenance.app, name="maintenance")
app.add_typer(lake.app, name="lake")
app.command()(erase.erase)
app.command()(doctor.doctor)
app.command()(top.top)
app.command()(backup.backup)
app.command()(backup.restore)
app.command()(demo.demo)
app.command()(fleet.fleet)
use_help_pages(app)


@cache
def command() -> Any:
    """The tree of commands as it is called: of `app`, typer would make it anew for each call in a process."""
    return typer.main.get_command(app)
