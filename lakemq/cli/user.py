"""`lakemq user list | put | show | delete` and `lakemq user token add | list | delete`."""

from __future__ import annotations

import os
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import Annotated, Any

import typer

from lakemq.cli import shown
from lakemq.cli.brokers import Named, ask_each, connect_all, said_of
from lakemq.cli.delay import milliseconds
from lakemq.cli.open_brokers import connect_with_warning
from lakemq.cli.options import AsJson, Broker, Nameservers
from lakemq.cli.output import note, stdout, write_json, write_line
from lakemq.client.user_api import VALID_MS_MAX
from lakemq.model.errors import LakemqError, TokenNotFound, Unauthenticated, UserNotFound
from lakemq.model.token import ID_BYTES, SECRET_BYTES, Token, make_token, parse_token
from lakemq.storage.disk.clock import SystemClock

DEFAULT = "default"
QUOTA = f"NUMBER|0|{DEFAULT}"
NOT_THERE = (UserNotFound,)
"""A broker may not have heard of a user that others have."""

app = typer.Typer(no_args_is_help=True, help="Create, show and delete users and their tokens.")
tokens = typer.Typer(no_args_is_help=True, help="Create, list and revoke a user's tokens.")
app.add_typer(tokens, name="token")

Name = Annotated[str, typer.Argument(metavar="USER", help="Name of the user.")]
Yes = Annotated[bool, typer.Option("--yes", help="Don't ask.")]


@app.command("list")
def list_users(
    context: typer.Context, as_json: AsJson = False, broker: Broker = None, nameservers: Nameservers = None
) -> None:
    """List the users.

    \b
    lakemq user list
    lakemq user list --nameservers http://127.0.0.1:9876
    """
    with connect_all(context, broker, nameservers) as brokers:
        found = ask_each(brokers, lambda client: client.users.all())
    rows: list[dict[str, Any]] = [{**user, **said_of(name)} for name, users in found.items() for user in users]
    if as_json:
        for row in rows:
            write_json(row)
        return
    table = shown.table("user", *said_of(*found), "type", "status")
    for row in sorted(rows, key=lambda each: each["user"]):
        table.add_row(shown.name(row["user"]), *said_of(row.get("broker", "")).values(), row["type"], row["status"])
    stdout().print(table)


@app.command()
def put(
    context: typer.Context,
    user: Name,
    type_: Annotated[
        str | None, typer.Option("--type", metavar="super|normal", help="A super user may do everything.")
    ] = None,
    status: Annotated[
        str | None, typer.Option("--status", metavar="enabled|disabled", help="A disabled user may do nothing.")
    ] = None,
    requests_per_s: Annotated[
        str | None, typer.Option("--requests-per-s", metavar=QUOTA, help="Requests a second.")
    ] = None,
    bytes_per_s: Annotated[
        str | None, typer.Option("--bytes-per-s", metavar=QUOTA, help="Bytes of bodies a second, both ways.")
    ] = None,
    connections: Annotated[str | None, typer.Option("--connections", metavar=QUOTA, help="Open connections.")] = None,
    topics: Annotated[str | None, typer.Option("--topics", metavar=QUOTA, help="Topics that it made.")] = None,
    queues: Annotated[str | None, typer.Option("--queues", metavar=QUOTA, help="Queues of these topics.")] = None,
    broker: Broker = None,
    nameservers: Nameservers = None,
) -> None:
    """Create a user, or change one.

    For each quota, 0 means unlimited, and `default` the broker's setting.

    \b
    lakemq user put ann
    lakemq user put root2 --type super
    lakemq user put ann --status disabled
    lakemq user put ann --requests-per-s 100 --bytes-per-s 1048576 --connections 50
    lakemq user put ann --connections default
    lakemq user put ann --topics 20 --queues 100
    lakemq user put ann --nameservers http://127.0.0.1:9876
    """
    given = {"requests_per_s": requests_per_s, "bytes_per_s": bytes_per_s, "connections": connections}
    given |= {"topics": topics, "queues": queues}
    quotas = {name: _quota(name, text) for name, text in given.items() if text is not None}
    with connect_with_warning(context, broker, nameservers) as brokers:
        made = ask_each(brokers, lambda client: client.users.put(user, type_, status, quotas), ())
    for name, answer in made.items():
        note(f"user {user} is {answer['type']} and {answer['status']}{name and f' at {name}'}{_quotas(answer)}")


def _quota(name: str, text: str) -> float | None:
    if text == DEFAULT:
        return None
    with suppress(ValueError):
        return int(text)
    with suppress(ValueError):
        if name != "connections" and isfinite(number := float(text)):
            return number
    hint = f"--{name.replace('_', '-')}"
    raise typer.BadParameter(f"{text[:100]!r} is no number, nor {DEFAULT!r}", param_hint=hint)


def _quotas(content: dict[str, Any]) -> str:
    """Those that the user has of its own; nothing where it has none."""
    quotas = content.get("quotas", {})  # a broker of an earlier version has none
    said = [f"{name} {number or 'none'}" for name, number in quotas.items() if number is not None]
    return f"; quotas: {', '.join(said)}" if said else ""


@app.command()
def show(
    context: typer.Context, user: Name, as_json: AsJson = False, broker: Broker = None, nameservers: Nameservers = None
) -> None:
    """Show a user's policies and when its tokens expire.

    \b
    lakemq user show ann
    lakemq user show ann --nameservers http://127.0.0.1:9876
    """
    with connect_all(context, broker, nameservers) as brokers:
        found = ask_each(brokers, lambda client: client.users.get(user), NOT_THERE)
    for name, content in found.items():
        if as_json:
            write_json({**content, **said_of(name)})
            continue
        where = name and f" at {name}"
        write_line(f"user {user} is {content['type']} and {content['status']}{where}{_quotas(content)}")
        show_policies(content["policies"], f"{user}{where}: policies")
        _show_tokens({name: content["tokens"]}, f"{user}{where}: tokens")


@app.command()
def delete(
    context: typer.Context, user: Name, yes: Yes = False, broker: Broker = None, nameservers: Nameservers = None
) -> None:
    """Delete a user, its policies and its tokens.

    \b
    lakemq user delete ann
    lakemq user delete ann --yes
    lakemq user delete ann --yes --nameservers http://127.0.0.1:9876
    """
    if not yes:
        typer.confirm(f"Delete user {user} with its policies and tokens?", abort=True, err=True)
    with connect_all(context, broker, nameservers) as brokers:
        deleted = ask_each(brokers, lambda client: client.users.delete(user), NOT_THERE)
    for name in deleted:
        note(f"deleted user {user}{name and f' at {name}'}")


@tokens.command("add")
def add_token(
    context: typer.Context,
    user: Name,
    expires: Annotated[
        str | None,
        typer.Option("--expires", metavar="DURATION", help="Time until it expires: 90s, 12h, 90d. Without it, never."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="FILE", help="Add the token in this file instead of a new one."),
    ] = None,
    broker: Broker = None,
    nameservers: Nameservers = None,
) -> None:
    """Create a token for a user and print it, once.

    A user may have several, so a new one can replace an old one without a break. With several brokers, all of them or
    none take the token. --file adds a token that exists already, for instance at a broker that was added later.

    \b
    lakemq user token add ann --expires 90d
    lakemq user token add ann > ann.token
    lakemq user token add ann --file ann.token
    lakemq user token add ann --nameservers http://127.0.0.1:9876
    """
    expires_ms = None if expires is None else _expires_ms(milliseconds(expires, "--expires"))
    token = make_token(os.urandom(ID_BYTES + SECRET_BYTES)) if file is None else _read_token(file)
    with connect_with_warning(context, broker, nameservers) as brokers:
        if file is None:
            _give(brokers, user, token, expires_ms)
            write_line(token.text)
            return
        told = ask_each(brokers, lambda client: client.users.let_in(user, token.id, token.secret_hash, expires_ms), ())
    for name in told:
        note(f"user {user} has token {token.id}{name and f' at {name}'}")


def _expires_ms(valid_ms: int) -> int:
    """As a request says it: so long from now by the clock of the broker, which also decides when the token is over. It
    takes no longer one than three years, so for that this machine's clock has to do."""
    return valid_ms if valid_ms < VALID_MS_MAX else SystemClock().now_ms() + valid_ms


def _read_token(file: Path) -> Token:
    try:
        return parse_token(file.read_text("ascii").strip())
    except (OSError, ValueError, Unauthenticated):
        raise typer.BadParameter(f"{file} holds no token: one is lmq_<id>_<secret>", param_hint="--file") from None


def _give(brokers: list[Named], user: str, token: Token, expires_ms: int | None) -> None:
    """Let all brokers take the token, or none."""
    try:
        ask_each(brokers, lambda client: client.users.let_in(user, token.id, token.secret_hash, expires_ms), ())
    except LakemqError:
        for each in brokers:  # one that didn't answer may have taken it
            with suppress(LakemqError):
                each.client.users.delete_token(user, token.id)
        raise


@tokens.command("list")
def list_tokens(
    context: typer.Context, user: Name, as_json: AsJson = False, broker: Broker = None, nameservers: Nameservers = None
) -> None:
    """List the ids of a user's tokens.

    \b
    lakemq user token list ann
    lakemq user token list ann --nameservers http://127.0.0.1:9876
    """
    with connect_all(context, broker, nameservers) as brokers:
        found = ask_each(brokers, lambda client: client.users.tokens(user), NOT_THERE)
    if as_json:
        for name, listed in found.items():
            for each in listed:
                write_json({**each, **said_of(name)})
        return
    _show_tokens(found, f"{user}: tokens")


@tokens.command("delete")
def delete_token(
    context: typer.Context,
    user: Name,
    token_id: Annotated[
        str, typer.Argument(metavar="TOKEN_ID", help="The part of the token between lmq_ and the next _.")
    ],
    broker: Broker = None,
    nameservers: Nameservers = None,
) -> None:
    """Revoke a token.

    \b
    lakemq user token delete ann 5f1d8f0c9a2b4e67
    lakemq user token delete ann 5f1d8f0c9a2b4e67 --nameservers http://127.0.0.1:9876
    """
    with connect_all(context, broker, nameservers) as brokers:
        missing = (*NOT_THERE, TokenNotFound)
        deleted = ask_each(brokers, lambda client: client.users.delete_token(user, token_id), missing)
    for name in deleted:
        note(f"deleted token {token_id} of user {user}{name and f' at {name}'}")


def _show_tokens(found: dict[str, list[dict[str, Any]]], title: str) -> None:
    table = shown.table(*said_of(*found), "token id", "created", "expires", title=title)
    for name, listed in found.items():
        for each in listed:
            over = "never" if each["expires_ms"] is None else shown.time_of(each["expires_ms"])
            table.add_row(*said_of(name).values(), each["token_id"], shown.time_of(each["created_ms"]), over)
    stdout().print(table)


def show_policies(policies: list[dict[str, Any]], title: str) -> None:
    """A table of policies."""
    table = shown.table("", "decision", "actions", "resource", "from", title=title)
    for number, each in enumerate(policies):
        sources = ", ".join(each["sources"]) or "everywhere"
        table.add_row(str(number), each["decision"], ", ".join(each["actions"]), each["resource"], sources)
    stdout().print(table)
