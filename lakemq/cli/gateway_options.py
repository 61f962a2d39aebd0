"""The options of who starts a gateway: each once, for `lakemq gateway`, for `lakemq up`, and for the gateway that this
one starts."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import typer

from lakemq.cli.options import Advertise, BrokerName, DataDir, Flush, Host, LakeDir, Parent, Port, RegisterWith

if TYPE_CHECKING:
    from lakemq.settings import Settings

Given = dict[str, Any]
"""Values, None where none was given, by the names that `settings_of` has for them."""
Command = Callable[[typer.Context, Given, int | None], None]


class _Option(NamedTuple):
    """What typer is told of it, and which setting it is."""

    kind: Any
    section: str
    key: str


_OPTIONS = {
    "data_dir": _Option(DataDir, "storage", "data_dir"),
    "lake": _Option(LakeDir, "lake", "dir"),
    "host": _Option(Host, "gateway", "host"),
    "port": _Option(Port, "gateway", "port"),
    "broker_name": _Option(BrokerName, "broker", "name"),
    "flush": _Option(Flush, "storage", "flush"),
    "nameservers": _Option(RegisterWith, "fleet", "nameservers"),
    "advertise": _Option(Advertise, "gateway", "advertise"),
}


def takes_gateway_options(command: Command) -> Callable[..., None]:
    """The command with these options, and that of the process that it ends with."""

    @wraps(command)
    def run(context: typer.Context, parent_pid: int | None = None, **values: Any) -> None:
        given = {f"{each.section}__{each.key}": values.get(name) for name, each in _OPTIONS.items()}
        command(context, given, parent_pid)

    kinds = {name: each.kind for name, each in _OPTIONS.items()} | {"parent_pid": Parent}
    options = [_parameter(name, kind, None) for name, kind in kinds.items()]
    run.__annotations__ = {"context": typer.Context, **kinds, "return": None}
    run.__signature__ = inspect.Signature(  # pyright: ignore[reportAttributeAccessIssue]  what typer reads
        [_parameter("context", typer.Context, inspect.Parameter.empty), *options]
    )
    return run


def _parameter(name: str, kind: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=kind)


def gateway_arguments(settings: Settings, port: int) -> list[str]:
    """How `up` starts its gateway: with all that it was itself told, and the port that it took."""
    arguments = ["gateway"]
    for name, (_, section, key) in _OPTIONS.items():
        value = port if name == "port" else getattr(getattr(settings, section), key)
        arguments += [f"--{name.replace('_', '-')}", _text_of(value)]  # also where it is empty, and a file's is not
    return arguments


def _text_of(value: object) -> str:
    return ",".join(cast("tuple[str, ...]", value)) if isinstance(value, tuple) else str(value)
