"""`lakemq clients`: who is connected."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lakemq.cli import shown
from lakemq.cli.brokers import ask_each, connect_all, said_of
from lakemq.cli.options import AsJson, Broker, Nameservers
from lakemq.cli.output import stdout, write_json

TOPICS_SHOWN_MAX = 5


def clients(
    context: typer.Context,
    producer_group: Annotated[
        str | None, typer.Option("--producer-group", metavar="GROUP", help="Only producers of this group.")
    ] = None,
    as_json: AsJson = False,
    broker: Broker = None,
    nameservers: Nameservers = None,
) -> None:
    """Show connected clients: members of groups, receivers and producers.

    A client that receives without being a member of the group has no name. A producer is shown some seconds after its
    first message. Users and addresses are shown to those with the right `Get` on the cluster.

    \b
    lakemq clients
    lakemq clients --producer-group payments
    lakemq clients --json | jq 'select(.kind == "producer")'
    lakemq clients --nameservers http://127.0.0.1:9876
    """
    with connect_all(context, broker, nameservers) as brokers:
        show_clients(ask_each(brokers, lambda client: client.clients(None, producer_group)), as_json)


def show_clients(found: dict[str, list[dict[str, Any]]], as_json: bool) -> None:
    """As a table, or a line of JSON each; of each broker."""
    listed = [{**each, **said_of(name)} for name, of_broker in found.items() for each in of_broker]
    if as_json:
        for each in listed:
            write_json(each)
        return
    who = ("user", "address") if any("address" in each for each in listed) else ()
    columns = ("client", *said_of(*found), "kind", "group", *who, "speaks", "last seen", "has", "buffered", "")
    made = shown.table(*columns)
    for each in sorted(listed, key=_place):
        where = said_of(each.get("broker", "")).values()
        made.add_row(shown.name(_text(each["client_id"])), *where, *_cells(each, who))
    stdout().print(made)


def _cells(client: dict[str, Any], who: tuple[str, ...]) -> tuple[str, ...]:
    age_ms, buffered = client["heartbeat_age_ms"], client["buffered"]
    said = {"paused": client["paused"] or not client.get("consume_enabled", True)}
    wrong = said | {f"{client['stuck']} stuck": client["stuck"]}
    return (
        client["kind"],
        _text(client["group"]),
        *(_text(client.get(name)) for name in who),
        _text(" ".join(each for each in (client["language"], client["version"]) if each)),
        "" if age_ms is None else f"{age_ms / 1000:.0f} s ago",
        _has(client),
        "" if buffered is None else f"{buffered:,}",
        ", ".join(what for what, is_so in wrong.items() if is_so),
    )


def _place(client: dict[str, Any]) -> tuple[str, ...]:
    return client["kind"], client["group"] or "", client["client_id"] or "", client.get("address") or ""


def _has(client: dict[str, Any]) -> str:
    """The topics that it sends to, or receives, or how many queues it has."""
    if client["kind"] == "consumer":
        count = client["queue_count"]
        return "" if count is None else f"{count} queue{'s' * (count != 1)}"
    topics: list[str] = client["topics"] or []
    more = f" and {len(topics) - TOPICS_SHOWN_MAX} more" if len(topics) > TOPICS_SHOWN_MAX else ""
    return _text(" ".join(topics[:TOPICS_SHOWN_MAX])) + more


def _text(said: str | None) -> str:
    return shown.plain(said or "")
