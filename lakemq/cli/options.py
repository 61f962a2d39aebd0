"""Options that several commands share, and the settings they make."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from lakemq.logs import set_up
from lakemq.model.environment import BROKER, NAMESERVERS, TOKEN, TOKEN_FILE

if TYPE_CHECKING:
    from lakemq.model.trust import Trust
    from lakemq.settings import Layer, Settings

DataDir = Annotated[
    Path | None, typer.Option("--data-dir", metavar="DIR", help="Folder of the log.", show_default="data")
]
LakeDir = Annotated[
    Path | None, typer.Option("--lake", metavar="DIR", help="Folder of the Delta tables.", show_default="lake")
]
Host = Annotated[str | None, typer.Option("--host", help="Address to listen on.", show_default="127.0.0.1")]
Port = Annotated[
    int | None,
    typer.Option("--port", help="Port to listen on. 0: any free port.", show_default="8080"),
]
BrokerName = Annotated[
    str | None,
    typer.Option("--broker-name", help="Name of this broker.", show_default="broker-a"),
]
Flush = Annotated[
    str | None,
    typer.Option(
        "--flush",
        metavar="sync|async",
        help="Answer a send once the message is written (async) or on disk (sync).",
        show_default="async",
    ),
]
Broker = Annotated[
    str | None,
    typer.Option(
        "--broker",
        metavar="URL",
        envvar=BROKER,
        help="Address of the broker.",
        show_default="http://127.0.0.1:8080, or as the settings say",
    ),
]
Nameservers = Annotated[
    str | None,
    typer.Option(
        "--nameservers",
        metavar="URLS",
        envvar=NAMESERVERS,
        help="Addresses of name servers, instead of --broker.",
    ),
]
RegisterWith = Annotated[
    str | None,
    typer.Option("--nameservers", metavar="URLS", help="Name servers to register with, separated by commas."),
]
Advertise = Annotated[
    str | None,
    typer.Option("--advertise", metavar="URL", help="Address to register.", show_default="the address it listens on"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]
Tags = Annotated[str, typer.Option("--tags", metavar="A||B", help="Only messages with one of these tags.")]
Filter = Annotated[
    str | None,
    typer.Option(
        "--filter", metavar="SQL92", help="Only if this is true of the properties: \"a > 5 AND b LIKE 'x%'\"."
    ),
]
Parent = Annotated[
    int | None,
    typer.Option("--parent-pid", hidden=True, help="Stop when this process, the parent, ends."),
]


@dataclass(frozen=True)
class Global:
    """What stands before the command."""

    config: Path | None = None


def global_options(context: typer.Context) -> Global:
    """What stood before the command."""
    return cast("Global", context.obj)


@contextmanager
def token_of(file: Path) -> Generator[None]:
    """Meanwhile clients have the token of that file, those of processes that are started too. It goes before what the
    environment says; a path is no secret, as the token would be on a command line."""
    before = {name: os.environ.pop(name, None) for name in (TOKEN, TOKEN_FILE)}
    os.environ[TOKEN_FILE] = str(file.absolute())
    try:
        yield
    finally:
        del os.environ[TOKEN_FILE]
        os.environ.update({name: value for name, value in before.items() if value is not None})


@contextmanager
def trusting(trust: Trust) -> Generator[None]:
    """Meanwhile clients trust so, those of processes that are started too: what a file of settings says they don't
    read. The environment went before it, so nothing that it says is another then."""
    said = {name: str(Path(file).absolute()) for name, file in trust.as_environment().items()}
    before = {name: os.environ.get(name) for name in said}
    os.environ.update(said)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def check_folder(file: Path | None, option: str) -> None:
    """Raises `BadParameter` where the file would stand in no folder: before the work, not after it."""
    if file is not None and not file.absolute().parent.is_dir():
        raise typer.BadParameter(f"{file}: there is no folder {file.parent}", param_hint=option)


def settings_of(context: typer.Context, **options: object) -> Settings:
    """All layers of settings; an option is named `section__key` and left out where None."""
    from lakemq.settings import load

    layer: Layer = {}
    for name, value in options.items():
        if value is not None:
            section, _, key = name.partition("__")
            layer.setdefault(section, {})[key] = value
    settings = load(global_options(context).config, options=layer)
    context.with_resource(trusting(settings.tls.trust))
    if settings.log.format == "json":
        set_up(settings.log.format, settings.log.level)
    return settings


def broker_url(context: typer.Context, broker: str | None) -> str:
    """The gateway's URL, or several with commas between: of the option, else of the environment, else
    where the settings say that it listens."""
    from lakemq.model.errors import InvalidRequest, SettingsError
    from lakemq.model.names import check_address

    settings = settings_of(context)  # also where they say nothing new: what is wrong in them is said
    if broker is None:
        return url_of(settings.gateway.host, settings.gateway.port, settings.tls.on)
    try:
        return ",".join(check_address(url.strip()) for url in broker.split(","))
    except InvalidRequest as error:
        raise SettingsError(f"--broker (or {BROKER}): {error.detail}") from None


def name_servers(context: typer.Context, broker: str | None, nameservers: str | None) -> list[str]:
    """Who is asked for the brokers; nobody, where a broker is named: the option before the environment, and that before
    the settings."""
    from lakemq.model.errors import SettingsError

    if _is_given(context, "broker"):
        if _is_given(context, "nameservers"):
            raise SettingsError("give --broker or --nameservers, not both")
        return []
    if nameservers is None:
        return [] if broker is not None else list(settings_of(context).fleet.nameservers)
    return list(settings_of(context, fleet__nameservers=nameservers).fleet.nameservers)


def _is_given(context: typer.Context, name: str) -> bool:
    """Whether the option stands in the command."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def url_of(host: str, port: int, by_tls: bool = False) -> str:
    """The URL under which a gateway on this machine that listens on `host` is reached."""
    reached = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104 (no place to listen)
    return f"{'https' if by_tls else 'http'}://{f'[{reached}]' if ':' in reached else reached}:{port}"
