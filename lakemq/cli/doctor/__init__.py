"""`lakemq doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from lakemq import __version__
from lakemq.cli import shown
from lakemq.cli.brokers import addresses_of
from lakemq.cli.doctor.finding import Finding, Grade
from lakemq.cli.options import (
    AsJson,
    Broker,
    DataDir,
    LakeDir,
    Nameservers,
    broker_url,
    name_servers,
    settings_of,
)
from lakemq.cli.output import stdout, write_json

if TYPE_CHECKING:
    from lakemq.settings import Settings

_COLOURS = {Grade.DOWN: shown.NOWHERE, Grade.WRONG: shown.NOWHERE, Grade.SOON: shown.LABEL, Grade.NOTE: ""}


def doctor(
    context: typer.Context,
    only_here: Annotated[bool, typer.Option("--here", help="Check only this machine, and ask no broker.")] = False,
    data_dir: DataDir = None,
    lake: LakeDir = None,
    as_json: AsJson = False,
    broker: Broker = None,
    nameservers: Nameservers = None,
) -> None:
    """Find what is wrong with brokers and this machine, and what to do.

    The most urgent comes first: down, wrong, soon (it will go wrong if nothing is done), note (possibly intended). It
    changes nothing. Exit code 1 if anything is down, wrong or soon.

    \b
    lakemq doctor
    lakemq doctor --here --data-dir data --lake lake
    lakemq doctor --json | jq -r 'select(.grade == "down") | .what'
    lakemq doctor --nameservers http://127.0.0.1:9876
    """
    settings = settings_of(context, storage__data_dir=data_dir, lake__dir=lake)
    found, lines, is_open = ([], [], False) if only_here else _of_fleet(context, broker, nameservers)
    # The jobs may have settings of their own: what a broker knows of them goes before what is set here.
    found += _of_machine(settings, is_open)
    found.sort(key=lambda each: each.grade)
    for each in found if as_json else ():
        write_json({**each._asdict(), "grade": each.grade.name.lower()})
    if not as_json:
        _show(found, lines)
    if any(each.grade is not Grade.NOTE for each in found):
        raise typer.Exit(1)


def _of_fleet(
    context: typer.Context, broker: str | None, nameservers: str | None
) -> tuple[list[Finding], list[str], bool]:
    """Of the brokers, and of the name servers, also of those that the settings name where a broker is given; what the
    name servers say, a line each; and whether a broker names an address of SQL that others reach."""
    from lakemq.cli.doctor import broker as of_broker
    from lakemq.cli.doctor import nameserver as of_servers
    from lakemq.cli.doctor.look import ASK_S_MAX, look_at_broker, look_at_name_server
    from lakemq.client.errors import Unreachable, Untrusted
    from lakemq.client.http import HttpClient
    from lakemq.storage.disk.clock import SystemClock

    given, settings = name_servers(context, broker, nameservers), settings_of(context)
    servers = [look_at_name_server(each, settings.tls.trust) for each in given or settings.fleet.nameservers]
    brokers: list[of_broker.Broker] = []
    found: list[Finding] = []
    try:
        addresses = addresses_of(context, broker, nameservers).split(",")
    except (Unreachable, Untrusted) as error:
        # Nobody says where they are: this machine's own one, where these are the settings of one.
        addresses = [] if nameservers is not None else [broker_url(context, broker)]
        if isinstance(error, Untrusted):
            do = "give brokers and name servers https alike"
            found.append(Finding(Grade.WRONG, "name servers", error.detail, do))
    for address in addresses:
        with HttpClient(address, ASK_S_MAX) as client:
            brokers.append(look_at_broker(address, client, SystemClock()))
    found += [finding for each in brokers for finding in of_broker.findings_of(each, __version__)]
    found += of_servers.findings_of(servers, brokers) if servers else ()
    return found, list(of_servers.lines_of(servers, brokers)), any(map(of_broker.is_open, brokers))


def _of_machine(settings: Settings, is_open: bool) -> list[Finding]:
    from lakemq.cli.doctor.look import look_at_machine
    from lakemq.cli.doctor.machine import findings_of

    return list(findings_of(look_at_machine(settings), is_open))


def _show(found: list[Finding], lines: list[str]) -> None:
    out = stdout()
    for line in lines:
        out.print(Text(f"name server {shown.plain(line)}"), soft_wrap=True)
    for each in found:
        grade = (f"{each.grade.name.lower():5} ", _COLOURS[each.grade])
        out.print(Text.assemble(grade, (each.about, shown.NAME), f": {shown.plain(each.what)}"), soft_wrap=True)
        out.print(Text(f"      {shown.plain(each.do)}"), soft_wrap=True)
    if not found:
        out.print("nothing is wrong")
