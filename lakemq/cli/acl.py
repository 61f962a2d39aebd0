"""`lakemq acl list | set | add | remove | check`: what users may do."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, cast

import orjson
import typer

from lakemq.cli.brokers import ask_each, said_of
from lakemq.cli.open_brokers import connect_with_warning
from lakemq.cli.options import AsJson, Broker, Nameservers
from lakemq.cli.output import note, write_json, write_line
from lakemq.cli.user import NOT_THERE, Name, show_policies
from lakemq.model.errors import InvalidRequest

Policies = list[dict[str, Any]]

app = typer.Typer(no_args_is_help=True, help="Show and change what users may do.")

Resource = Annotated[str, typer.Argument(help="For instance Topic:orders, Topic:orders* or Group:*.")]
From = Annotated[
    list[str] | None, typer.Option("--from", metavar="ADDRESS", help="Only from this address or network. Repeatable.")
]


@app.command("list")
def list_policies(
    context: typer.Context, user: Name, as_json: AsJson = False, broker: Broker = None, nameservers: Nameservers = None
) -> None:
    """List a user's policies.

    \b
    lakemq acl list ann
    lakemq acl list ann --nameservers http://127.0.0.1:9876
    """
    with connect_with_warning(context, broker, nameservers) as brokers:
        found = ask_each(brokers, lambda client: client.users.policies(user), NOT_THERE)
    for name, policies in found.items():
        if not as_json:
            show_policies(policies, f"{user}{name and f' at {name}'}")
            continue
        for each in policies:
            write_json({**each, **said_of(name)})


@app.command("set")
def set_policies(
    context: typer.Context,
    user: Name,
    file: Annotated[
        Path, typer.Argument(help="Policies as JSON, one a line, as acl list --json prints them. -: stdin.")
    ],
    broker: Broker = None,
    nameservers: Nameservers = None,
) -> None:
    """Replace all policies of a user.

    \b
    lakemq acl set ann policies.ndjson
    lakemq acl set ann - < policies.ndjson
    lakemq acl set ann policies.ndjson --nameservers http://127.0.0.1:9876
    """
    wanted = _read(file)
    _change(context, user, lambda _: wanted, broker, nameservers)


@app.command()
def add(
    context: typer.Context,
    user: Name,
    actions: Annotated[str, typer.Argument(metavar="ACTIONS", help="For instance Pub or Pub,Sub,Get.")],
    resource: Resource,
    deny: Annotated[bool, typer.Option("--deny", help="Deny it, whatever other policies allow.")] = False,
    sources: From = None,
    broker: Broker = None,
    nameservers: Nameservers = None,
) -> None:
    """Add a policy that allows or denies actions.

    \b
    lakemq acl add ann Pub,Sub "Topic:orders*"
    lakemq acl add ann Sub Group:billing --from 10.0.0.0/8 --from ::1
    lakemq acl add ann Pub Topic:orders-archive --deny
    lakemq acl add ann Pub Topic:orders --nameservers http://127.0.0.1:9876
    """
    policy = {
        "resource": resource,
        "actions": [each.strip() for each in actions.split(",") if each.strip()],
        "sources": sources or [],
        "decision": "deny" if deny else "allow",
    }
    _change(context, user, lambda policies: [*policies, policy], broker, nameservers)


@app.command()
def remove(
    context: typer.Context, user: Name, resource: Resource, broker: Broker = None, nameservers: Nameservers = None
) -> None:
    """Remove a user's policies for exactly that resource.

    \b
    lakemq acl remove ann "Topic:orders*"
    lakemq acl remove ann "Topic:orders*" --nameservers http://127.0.0.1:9876
    """

    def without(policies: Policies) -> Policies:
        left = [each for each in policies if each["resource"] != resource]
        if len(left) == len(policies):
            raise InvalidRequest(f"user {user} has no policy of {resource}")
        return left

    _change(context, user, without, broker, nameservers)


@app.command()
def check(
    context: typer.Context,
    user: Name,
    action: Annotated[str, typer.Argument(help="For instance Pub.")],
    resource: Resource,
    source: Annotated[str | None, typer.Option("--from", metavar="ADDRESS", help="As if from this address.")] = None,
    as_json: AsJson = False,
    broker: Broker = None,
    nameservers: Nameservers = None,
) -> None:
    """Check whether a user may do something. Exit code 1 if not.

    \b
    lakemq acl check ann Pub Topic:orders
    lakemq acl check ann Pub Topic:orders --from 10.0.0.7
    lakemq acl check ann Pub Topic:orders --nameservers http://127.0.0.1:9876
    """
    with connect_with_warning(context, broker, nameservers) as brokers:
        found = ask_each(brokers, lambda client: client.users.may(user, action, resource, source), ())
    for name, (allowed, by) in found.items():
        if as_json:
            write_json({"allowed": allowed, "by": by, **said_of(name)})
        else:
            write_line(f"{'allowed' if allowed else 'denied'}{name and f' at {name}'}: {by}")
    if not all(allowed for allowed, _ in found.values()):
        raise typer.Exit(1)


def _change(
    context: typer.Context,
    user: str,
    change: Callable[[Policies], Policies],
    broker: str | None,
    nameservers: str | None,
) -> None:
    """Change the policies at each broker: what each has is read first, all of them, so that nothing is changed where
    one refuses."""
    with connect_with_warning(context, broker, nameservers) as brokers:
        before = ask_each(brokers, lambda client: client.users.policies(user), ())
        after = {id(client): change(before[name]) for name, client in brokers}
        done = ask_each(brokers, lambda client: client.users.put_policies(user, after[id(client)]), ())
    for name, policies in done.items():
        note(
            f"user {user} has {len(policies)} {'policy' if len(policies) == 1 else 'policies'}{name and f' at {name}'}"
        )


def _read(file: Path) -> Policies:
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"{file} can't be read: {error}", param_hint="FILE") from None
    policies: Policies = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            read = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise typer.BadParameter(f"line {number} is no JSON: {error}", param_hint="FILE") from None
        if not isinstance(read, dict):
            raise typer.BadParameter(f"line {number} is no object", param_hint="FILE")
        policy = cast("dict[str, Any]", read)
        policies.append({name: value for name, value in policy.items() if name != "broker"})
    return policies
