"""`lakemq broker list | switch | elect | remove | log-level`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from lakemq.cli import shown
from lakemq.cli.log_level import log_level
from lakemq.cli.options import AsJson, Broker, Nameservers
from lakemq.cli.output import note, remark, stdout, write_json
from lakemq.cli.replicas import Replica, address_of_leader, find_replicas, leaders, of_one_broker
from lakemq.model.errors import InvalidRequest
from lakemq.model.primary import FOLLOWER, PRIMARY

if TYPE_CHECKING:
    from lakemq.client.http import HttpClient

app = typer.Typer(no_args_is_help=True, help="List brokers and their replicas, and change who leads.")
_WHOLE = ("role", "address", "epoch", "in sync", "lag")
"""What an operator looks for is never cut, however narrow the terminal."""
_COLUMNS = ("permission", "topics", "last seen")

Name = Annotated[
    str | None, typer.Argument(metavar="[BROKER]", help="Name of the broker. Needed if there are several.")
]
Number = Annotated[int, typer.Option("--replica", min=0, help="Number of the replica.")]
Yes = Annotated[bool, typer.Option("--yes", help="Don't ask.")]


@app.command("list")
def list_brokers(
    context: typer.Context, as_json: AsJson = False, broker: Broker = None, nameservers: Nameservers = None
) -> None:
    """List brokers and replicas: address, role, lag.

    A replica in sync has every confirmed message and may become leader. Lag is the number of positions that a
    follower is behind.

    \b
    lakemq broker list
    lakemq broker list --nameservers http://127.0.0.1:9876
    lakemq broker list --json
    """
    replicas = find_replicas(context, broker, nameservers)
    leading = leaders(replicas)
    rows = [_row(each, leading.get(each.broker)) for each in replicas]
    if as_json:
        for row in rows:
            write_json(row)
        return
    table = shown.table("broker", "replica", *map(shown.whole, _WHOLE), *_COLUMNS)
    for row in rows:
        in_sync = {True: Text("yes", shown.HERE), False: Text("no", shown.NOWHERE), None: Text("")}[row["in_sync"]]
        lag = Text("") if row["lag"] is None else shown.lag(row["lag"])
        seen_ms = row.get("seen_ms_ago")
        heard = "" if seen_ms is None else f"{seen_ms / 1000:.0f} s ago"
        role = Text(row["role"], shown.NOWHERE if row["problem"] else "")
        said = [str(row[name]) for name in ("address", "epoch")]
        more = [str(row.get(name, "")) for name in ("permission", "topics")]
        table.add_row(shown.name(row["broker"]), str(row["replica"]), role, *said, in_sync, lag, *more, heard)
    stdout().print(table)
    for row in rows:
        if row["problem"]:
            remark(f"{row['address']}: {row['problem']}")


@app.command()
def switch(
    context: typer.Context,
    replica: Number,
    name: Name = None,
    as_json: AsJson = False,
    broker: Broker = None,
    nameservers: Nameservers = None,
) -> None:
    """Make another replica the leader of a broker, without loss.

    The replica must be in sync. Writes wait for about half a second. The present leader becomes a follower.

    \b
    lakemq broker switch --replica 1
    lakemq broker switch broker-a --replica 1 --nameservers http://127.0.0.1:9876
    """
    mine = of_one_broker(find_replicas(context, broker, nameservers), name)
    with _at(address_of_leader(mine)) as client:
        said = client.switch(replica)
    _tell(as_json, said, f"replica {replica} leads {_called(mine)}")


@app.command()
def elect(
    context: typer.Context,
    name: Name = None,
    replica: Annotated[
        int | None, typer.Option("--replica", min=0, help="Number of the replica. Needed if there are several.")
    ] = None,
    unclean: Annotated[
        bool, typer.Option("--unclean", help="Accept the loss of messages that this replica lacks.")
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
    broker: Broker = None,
    nameservers: Nameservers = None,
) -> None:
    """Force a replica to lead, though acknowledged messages may be lost.

    Replicas in sync elect a leader by themselves. Use this only if all of them are gone for good. The replica starts
    a new epoch; its log keeps its id.

    \b
    lakemq broker elect --unclean --broker http://127.0.0.1:9000
    lakemq broker elect broker-a --unclean --replica 0 --yes --nameservers http://127.0.0.1:9876
    """
    if not unclean:
        raise typer.BadParameter("it loses what this replica lacks: say so", param_hint="--unclean")
    mine = of_one_broker(find_replicas(context, broker, nameservers), name)
    chosen = _one_replica(mine, replica)
    if not yes:
        typer.confirm(
            f"Have replica {chosen.number} of {_called(mine)} lead, and lose what it lacks?", abort=True, err=True
        )
    with _at(chosen.address) as client:
        said = client.elect_unclean()
    _tell(as_json, said, f"replica {chosen.number} leads {_called(mine)}")


@app.command()
def remove(
    context: typer.Context,
    replica: Number,
    name: Name = None,
    as_json: AsJson = False,
    broker: Broker = None,
    nameservers: Nameservers = None,
) -> None:
    """Remove a replica that is gone for good from a broker.

    \b
    lakemq broker remove --replica 1
    lakemq broker remove broker-a --replica 2 --nameservers http://127.0.0.1:9876
    """
    mine = of_one_broker(find_replicas(context, broker, nameservers), name)
    with _at(address_of_leader(mine)) as client:
        said = client.remove_replica(replica)
    _tell(as_json, said, f"{_called(mine)} has forgotten replica {replica}")


app.command("log-level")(log_level)


def _row(replica: Replica, leader: Replica | None) -> dict[str, Any]:
    """`in_sync` is what the leader says: None where nobody does. `lag`: None of who leads, or doesn't answer."""
    known = {name: replica.known[name] for name in ("permission", "topics", "seen_ms_ago") if name in replica.known}
    in_sync: list[int] | None = None if leader is None else leader.said.get("in_sync")
    is_follower = replica.said.get("role") == FOLLOWER
    role = replica.of("role", PRIMARY) if replica.said else "no answer"
    return {
        "broker": replica.broker,
        "replica": replica.number,
        "role": role,
        "address": replica.address,
        "epoch": replica.of("epoch", 0),
        "in_sync": None if in_sync is None else replica.number in in_sync,
        "lag": replica.said.get("follower_lag") if is_follower else None,
        "problem": replica.problem or (replica.said.get("follower_fault") if is_follower else "") or "",
        **known,
    }


def _one_replica(replicas: list[Replica], number: int | None) -> Replica:
    """The one of that number, which has to answer. Raises `InvalidRequest`."""
    if number is None and len(replicas) > 1:
        numbers = ", ".join(str(each.number) for each in replicas)
        raise InvalidRequest(f"{_called(replicas)} has several replicas: say with --replica which of {numbers}")
    found = [each for each in replicas if each.said and number in (None, each.number)]
    if not found:
        problems = "; ".join(f"{each.address}: {each.problem}" for each in replicas if each.problem)
        raise InvalidRequest(f"replica {number} of {_called(replicas)} isn't there{problems and f' ({problems})'}")
    return found[0]


def _called(replicas: list[Replica]) -> str:
    return next((each.broker for each in replicas if each.broker), "the broker")


def _at(address: str) -> HttpClient:
    from lakemq.client.http import HttpClient

    return HttpClient(address)


def _tell(as_json: bool, said: dict[str, Any], text: str) -> None:
    if as_json:
        write_json(said)
    else:
        note(text)
