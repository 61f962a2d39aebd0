"""`lakemq group list | show | lag | reset | clients | pause | resume | delete | redrive`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from lakemq.cli import shown
from lakemq.cli.brokers import ask_each, connect_all, said_of
from lakemq.cli.clients import show_clients
from lakemq.cli.dead_letters import redrive
from lakemq.cli.delay import moment_ms
from lakemq.cli.options import AsJson, Broker, Nameservers
from lakemq.cli.output import remark, stdout, write_json
from lakemq.model.errors import ClientNotFound, GroupNotFound, TopicNotFound

if TYPE_CHECKING:
    from lakemq.client.http import HttpClient, ResetTo

_NOT_THERE = (GroupNotFound, TopicNotFound)
"""A broker may not have heard of a group that others have."""

app = typer.Typer(no_args_is_help=True, help="Show, pause, reset and delete consumer groups.")
_REDRIVE = (redrive.__doc__ or "").replace("lakemq dead-letters redrive", "lakemq group redrive")
app.command(help=_REDRIVE)(redrive)  # it was here before there was `lakemq dead-letters`


Name = Annotated[str, typer.Argument(metavar="GROUP", help="Name of the group.")]


@app.command("list")
def list_groups(
    context: typer.Context, as_json: AsJson = False, broker: Broker = None, nameservers: Nameservers = None
) -> None:
    """List the groups.

    \b
    lakemq group list
    lakemq group list --nameservers http://127.0.0.1:9876
    """
    with connect_all(context, broker, nameservers) as brokers:
        found = ask_each(brokers, lambda client: client.groups())
    groups: list[dict[str, Any]] = [
        {**group, **said_of(name)} for name, of_broker in found.items() for group in of_broker
    ]
    if as_json:
        for group in groups:
            write_json(group)
        return
    made = shown.table("group", *said_of(*found), "members", "topics", "behind", "")
    for group in sorted(groups, key=lambda each: each["group"]):
        said = {"paused": not group["consume_enabled"], "subscriptions differ": group["subscriptions_differ"]}
        warning = Text(", ".join(what for what, is_so in said.items() if is_so), shown.NOWHERE)
        topics = Text(" ".join(group["topics"]))
        where = said_of(group.get("broker", "")).values()
        behind = shown.lag(group["lag_total"])
        made.add_row(shown.name(group["group"]), *where, str(group["member_count"]), topics, behind, warning)
    stdout().print(made)


@app.command()
def show(
    context: typer.Context, group: Name, as_json: AsJson = False, broker: Broker = None, nameservers: Nameservers = None
) -> None:
    """Show a group: members, subscriptions and lag.

    \b
    lakemq group show billing
    lakemq group show billing --nameservers http://127.0.0.1:9876
    """
    with connect_all(context, broker, nameservers) as brokers:
        found = ask_each(brokers, lambda client: client.group(group), _NOT_THERE)
    if as_json:
        for name, content in found.items():
            write_json({**content, **said_of(name)})
        return
    for name, content in found.items():
        _show_members(content, name)
    _show_lag(group, found)
    for name, content in found.items():
        if not content["consume_enabled"]:
            remark(f"{group} is paused{name and f' at {name}'}: lakemq group resume {group}")
    for topic in sorted({each["topic"] for content in found.values() for each in content["differences"]}):
        remark(f"members subscribe to {topic} in different ways: messages are lost to the group")


@app.command()
def lag(
    context: typer.Context, group: Name, as_json: AsJson = False, broker: Broker = None, nameservers: Nameservers = None
) -> None:
    """Show a group's lag by queue.

    The lag of a broadcasting group is unknown: its members keep their own offsets.

    \b
    lakemq group lag billing
    lakemq group lag billing --json | jq 'select(.lag > 1000)'
    lakemq group lag billing --nameservers http://127.0.0.1:9876
    """
    with connect_all(context, broker, nameservers) as brokers:
        found = ask_each(brokers, lambda client: client.group(group), _NOT_THERE)
    if as_json:
        for name, content in found.items():
            for entry in content["lag"]:
                write_json({**entry, **said_of(name)})
        return
    _show_lag(group, found)


@app.command()
def reset(
    context: typer.Context,
    group: Name,
    topic: Annotated[str, typer.Argument(help="The topic.")],
    to: Annotated[str, typer.Option("--to", metavar="earliest|latest|TIME", help="Where to continue.")],
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    as_json: AsJson = False,
    broker: Broker = None,
    nameservers: Nameservers = None,
) -> None:
    """Reset a group's offsets in a topic. Running members follow.

    \b
    lakemq group reset billing orders --to earliest
    lakemq group reset billing orders --to 2026-12-24T18:00 --yes
    lakemq group reset billing orders --to latest --yes --nameservers http://127.0.0.1:9876
    """
    place, timestamp_ms = _place(to)
    if not yes:
        typer.confirm(f"Move the offsets of group {group} in topic {topic} to {to}?", abort=True, err=True)
    with connect_all(context, broker, nameservers) as brokers:
        found = ask_each(brokers, lambda client: client.reset_offsets(group, topic, place, timestamp_ms))
    if as_json:
        for name, offsets in found.items():
            for queue_id, offset in offsets.items():
                entry = {"topic": topic, "queue_id": queue_id, "offset": offset}
                write_json({**entry, **said_of(name)})
        return
    made = shown.table(*said_of(*found), "queue", "offset", title=f"{group}: {topic}")
    for name, offsets in found.items():
        for queue_id, offset in offsets.items():
            made.add_row(*said_of(name).values(), str(queue_id), f"{offset:,}")
    stdout().print(made)


@app.command("clients")
def list_clients(
    context: typer.Context, group: Name, as_json: AsJson = False, broker: Broker = None, nameservers: Nameservers = None
) -> None:
    """Show a group's members, their queues and whether they are paused.

    \b
    lakemq group clients billing
    lakemq group clients billing --json | jq 'select(.stuck > 0)'
    lakemq group clients billing --nameservers http://127.0.0.1:9876
    """
    with connect_all(context, broker, nameservers) as brokers:
        show_clients(ask_each(brokers, lambda client: client.clients(group), _NOT_THERE), as_json)


OneClient = Annotated[str | None, typer.Option("--client", metavar="ID", help="Only this client. It keeps its queues.")]


@app.command()
def pause(
    context: typer.Context,
    group: Name,
    client_id: OneClient = None,
    broker: Broker = None,
    nameservers: Nameservers = None,
) -> None:
    """Pause a group, or one client of it, until `resume`.

    It survives restarts. Members may finish, acknowledge and commit the messages that they have. A group that doesn't
    exist is created. A client stays paused for as long as it is a member.

    \b
    lakemq group pause billing
    lakemq group pause shipping --client worker-7
    lakemq group pause billing --nameservers http://127.0.0.1:9876
    """
    _enable(context, group, client_id, False, broker, nameservers)


@app.command()
def resume(
    context: typer.Context,
    group: Name,
    client_id: OneClient = None,
    broker: Broker = None,
    nameservers: Nameservers = None,
) -> None:
    """Resume a paused group, or one client of it.

    \b
    lakemq group resume billing
    lakemq group resume shipping --client worker-7
    lakemq group resume billing --nameservers http://127.0.0.1:9876
    """
    _enable(context, group, client_id, True, broker, nameservers)


def _enable(
    context: typer.Context,
    group: str,
    client_id: str | None,
    enabled: bool,
    broker: str | None,
    nameservers: str | None,
) -> None:
    def ask(client: HttpClient) -> None:
        if client_id is None:
            client.enable_group(group, enabled)
        else:
            client.enable_client(group, client_id, enabled)

    with connect_all(context, broker, nameservers) as brokers:
        done = ask_each(brokers, ask, (GroupNotFound, ClientNotFound))
    who = f"group {group}" if client_id is None else f"{shown.plain(client_id)} of group {group}"
    for name in done:
        remark(f"{who} {'consumes' if enabled else 'is paused'}{name and f' at {name}'}")


@app.command()
def delete(
    context: typer.Context,
    group: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    broker: Broker = None,
    nameservers: Nameservers = None,
) -> None:
    """Delete a group without members: its offsets, retries and dead letters.

    \b
    lakemq group delete billing
    lakemq group delete billing --yes
    lakemq group delete billing --yes --nameservers http://127.0.0.1:9876
    """
    with connect_all(context, broker, nameservers) as brokers:
        ask_each(brokers, lambda client: client.group(group), _NOT_THERE)
        if not yes:
            typer.confirm(f"Delete group {group} with its offsets, retries and dead letters?", abort=True, err=True)
        deleted = ask_each(brokers, lambda client: client.delete_group(group), _NOT_THERE)
    for name in deleted:
        remark(f"group {group} is deleted{name and f' at {name}'}")


def _place(to: str) -> tuple[ResetTo, int | None]:
    if to == "earliest":
        return "earliest", None
    if to == "latest":
        return "latest", None
    return "timestamp", moment_ms(to, "--to")


def _show_members(content: dict[str, Any], broker: str) -> None:
    title = f"{content['group']}{broker and f' at {broker}'}"
    made = shown.table("member", "model", "begins with", "last seen", "subscribes to", title=title)
    for client in content["clients"]:
        wanted = [f"{each['topic']} {each['expression']}" for each in client["subscriptions"]]
        heard = f"{client['heartbeat_age_ms'] / 1000:.0f} s ago"
        subscribed = Text(shown.plain(", ".join(wanted)), shown.LABEL)
        made.add_row(
            shown.name(shown.plain(client["client_id"])), client["model"], client["consume_from"], heard, subscribed
        )
    stdout().print(made)


def _show_lag(group: str, found: dict[str, dict[str, Any]]) -> None:
    """By queue, and of all brokers together: unknown where one doesn't know."""
    made = shown.table("topic", *said_of(*found), "queue", "offset", "next offset", "behind", title=f"{group}: offsets")
    for name, content in found.items():
        where = said_of(name).values()
        for entry in content["lag"]:
            offset = "none" if entry["offset"] is None else f"{entry['offset']:,}"
            place = (*where, str(entry["queue_id"]), offset, f"{entry['max_offset']:,}")
            made.add_row(shown.name(entry["topic"]), *place, shown.lag(entry["lag"]))
    made.add_section()
    totals: list[int | None] = [content["lag_total"] for content in found.values()]
    known = [total for total in totals if total is not None]
    total = sum(known) if len(known) == len(totals) else None
    made.add_row("all", *("" for _ in said_of(*found)), "", "", "", shown.lag(total))
    stdout().print(made)
    if any(content.get("partial") for content in found.values()):
        remark("the group has more topics: to see how far it is behind in them takes Sub, Get or List on them")
