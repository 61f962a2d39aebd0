"""`lakemq group list | show | lag | reset | delete | redrive`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer
from rich.text import Text

from lakemq.cli import shown
from lakemq.cli.delay import moment_ms
from lakemq.cli.options import AsJson, Broker, connect
from lakemq.cli.output import note, progress, stdout, write_line

if TYPE_CHECKING:
    from lakemq.client.http import HttpClient, ResetTo

LOOK_S = 0.2
RUNNING = "running"

app = typer.Typer(no_args_is_help=True, help="Look at consumer groups, and care for them.")


Name = Annotated[str, typer.Argument(metavar="GROUP", help="Its name.")]


@app.command("list")
def list_groups(context: typer.Context, as_json: AsJson = False, broker: Broker = None) -> None:
    """List the groups.

    \b
    lakemq group list
    """
    with connect(context, broker) as client:
        groups = client.groups()
    if as_json:
        for group in groups:
            write_line(orjson.dumps(group).decode())
        return
    made = shown.table("group", "members", "topics", "behind", "")
    for group in groups:
        warning = Text("subscriptions differ" if group["subscriptions_differ"] else "", shown.NOWHERE)
        topics = Text(" ".join(group["topics"]))
        made.add_row(
            shown.name(group["group"]), str(group["member_count"]), topics, shown.lag(group["lag_total"]), warning
        )
    stdout().print(made)


@app.command()
def show(context: typer.Context, group: Name, as_json: AsJson = False, broker: Broker = None) -> None:
    """Show a group: its members, what they subscribe to, and how far it is behind.

    \b
    lakemq group show billing
    """
    with connect(context, broker) as client:
        content = client.group(group)
    if as_json:
        write_line(orjson.dumps(content).decode())
        return
    _show_members(content)
    _show_lag(content)
    for difference in content["differences"]:
        note(f"lakemq: members subscribe to {difference['topic']} in different ways: messages are lost to the group")


@app.command()
def lag(context: typer.Context, group: Name, as_json: AsJson = False, broker: Broker = None) -> None:
    """Show how far a group is behind, queue by queue.

    Of a group of model broadcasting that is unknown: its members keep their offsets themselves.

    \b
    lakemq group lag billing
    lakemq group lag billing --json | jq 'select(.lag > 1000)'
    """
    with connect(context, broker) as client:
        content = client.group(group)
    if as_json:
        for entry in content["lag"]:
            write_line(orjson.dumps(entry).decode())
        return
    _show_lag(content)


@app.command()
def reset(
    context: typer.Context,
    group: Name,
    topic: Annotated[str, typer.Argument(help="Of which topic.")],
    to: Annotated[str, typer.Option("--to", metavar="earliest|latest|TIME", help="Where it goes on.")],
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    as_json: AsJson = False,
    broker: Broker = None,
) -> None:
    """Have a group consume a topic again, or from later on. Its running members follow.

    \b
    lakemq group reset billing orders --to earliest
    lakemq group reset billing orders --to 2026-12-24T18:00 --yes
    """
    place, timestamp_ms = _place(to)
    if not yes:
        typer.confirm(f"Move the offsets of group {group} in topic {topic} to {to}?", abort=True, err=True)
    with connect(context, broker) as client:
        offsets = client.reset_offsets(group, topic, place, timestamp_ms)
    if as_json:
        for queue_id, offset in offsets.items():
            write_line(orjson.dumps({"topic": topic, "queue_id": queue_id, "offset": offset}).decode())
        return
    made = shown.table("queue", "offset", title=f"{group}: {topic}")
    for queue_id, offset in offsets.items():
        made.add_row(str(queue_id), f"{offset:,}")
    stdout().print(made)


@app.command()
def delete(
    context: typer.Context,
    group: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    broker: Broker = None,
) -> None:
    """Delete a group that has no members, with its offsets, its retries and its dead letters.

    \b
    lakemq group delete billing
    lakemq group delete billing --yes
    """
    with connect(context, broker) as client:
        client.group(group)
        if not yes:
            typer.confirm(f"Delete group {group} with its offsets, retries and dead letters?", abort=True, err=True)
        client.delete_group(group)
    note(f"lakemq: group {group} is deleted")


def _place(to: str) -> tuple[ResetTo, int | None]:
    if to == "earliest":
        return "earliest", None
    if to == "latest":
        return "latest", None
    return "timestamp", moment_ms(to, "--to")


def _show_members(content: dict[str, Any]) -> None:
    made = shown.table("member", "model", "begins with", "heard of", "subscribes to", title=content["group"])
    for client in content["clients"]:
        wanted = [f"{each['topic']} {each['expression']}" for each in client["subscriptions"]]
        heard = f"{client['heartbeat_age_ms'] / 1000:.0f} s ago"
        subscribed = Text(shown.plain(", ".join(wanted)), shown.LABEL)
        made.add_row(
            shown.name(shown.plain(client["client_id"])), client["model"], client["consume_from"], heard, subscribed
        )
    stdout().print(made)


def _show_lag(content: dict[str, Any]) -> None:
    made = shown.table("topic", "queue", "offset", "next offset", "behind", title=f"{content['group']}: offsets")
    for entry in content["lag"]:
        offset = "none" if entry["offset"] is None else f"{entry['offset']:,}"
        queue = str(entry["queue_id"])
        made.add_row(shown.name(entry["topic"]), queue, offset, f"{entry['max_offset']:,}", shown.lag(entry["lag"]))
    made.add_section()
    made.add_row("all", "", "", "", shown.lag(content["lag_total"]))
    stdout().print(made)


@app.command()
def redrive(
    context: typer.Context,
    group: Annotated[str, typer.Argument(help="Whose dead letters.")],
    where: Annotated[str, typer.Option("--where", metavar="SQL", help="Which: a predicate over their columns.")],
    rate: Annotated[float, typer.Option("--rate", min=0.01, help="At most so many a second.")] = 100,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count them.")] = False,
    as_json: AsJson = False,
    broker: Broker = None,
) -> None:
    """Send dead letters to their group again, and wait until all are sent.

    Each is sent once, whatever happens on the way; a redrive that was begun goes on without this
    command. The columns are those of a message: tag, keys, properties, real_topic, body and so on.

    \b
    lakemq group redrive billing --where "tag = 'invoice' AND reconsume_times >= 3" --dry-run
    lakemq group redrive billing --where "true" --rate 10
    """
    with connect(context, broker) as client:
        started = client.redrive(group, where, rate, dry_run)
        done = _wait(client, started.redrive_id, started.matched)
    if as_json:
        write_line(orjson.dumps({"redrive_id": started.redrive_id} | done).decode())
        return
    if dry_run:
        write_line(f"{started.matched:,} dead letters of {group} match; none was sent")
        return
    write_line(f"{done['redriven']:,} of {started.matched:,} dead letters sent to {group} again")
    if done["failed"]:
        note(f"lakemq: {done['failed']:,} failed; lakemq group redrive --json says which")
        raise typer.Exit(1)


def _wait(client: HttpClient, redrive_id: str, matched: int) -> dict[str, Any]:
    """What became of the redrive, once it is over."""
    with progress() as bar:
        task = bar.add_task("redriven", total=matched)
        while True:
            found = client.redrive_progress(redrive_id)
            bar.update(task, completed=found["redriven"] + found["failed"])
            if found["state"] != RUNNING:
                return found
            time.sleep(LOOK_S)
