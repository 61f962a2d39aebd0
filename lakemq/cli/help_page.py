"""How `--help` looks: every command by the same rules.

Examples come last, each in one line that no width of a terminal breaks, so that it can be copied. Options come in the
order in which the examples show them, as examples begin with what is used most; those that say which broker to ask come
after all others.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from enum import Enum
from typing import Any, Literal, get_args, get_origin

import typer
from rich.console import Console
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

from lakemq.cli.output import stdout

CONNECTION = ("broker", "nameservers")
"""Options that most commands share; they stand below a heading of their own, in this order."""
_WIDTH_MAX = 100
_LEFT_MAX = 30
"""A longer name has a line to itself."""
_EXAMPLE = re.compile(r"^ *(?:[^\n]*\| )?lakemq .*(?:\n    +(?!lakemq)\S.*)*", re.MULTILINE)
_OPTION = re.compile(r"(?<!\S)--[a-z][a-z-]*")
_LAST = ("install_completion", "show_completion", "help", *CONNECTION)


class Command(TyperCommand):
    """A command whose help is such a page."""

    def __init__(self, name: str | None, **more: Any) -> None:
        super().__init__(name, **more)
        name_values(self.params)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Writes the page to stdout."""
        show_help(self, ctx)


class Group(TyperGroup):
    """A group of commands whose help is such a page."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        name_values(self.params)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Writes the page to stdout."""
        show_help(self, ctx)


def use_help_pages(app: typer.Typer) -> None:
    """Gives these to all commands below the app. To be called once all are there."""
    for command in app.registered_commands:
        command.cls = Command
    for group in app.registered_groups:
        group.cls = Group
        if group.typer_instance is not None:
            use_help_pages(group.typer_instance)


def name_values(params: list[Any]) -> None:
    """What stands for a value is a word in capitals, or a list of words to choose from."""
    for param in params:
        if param.metavar is None and not _is_flag(param):
            param.metavar = _name_of_value(param)


def examples_of(text: str | None) -> list[str]:
    """The examples in a docstring, each in one line: those after a \\b in which `lakemq` is run."""
    shown = inspect.cleandoc(text or "").partition("\b")[2]
    return [re.sub(r"\n *", " ", each.strip()) for each in _EXAMPLE.findall(shown)]


def ordered_options(params: list[Any], examples: list[str]) -> list[Any]:
    """Options that aren't hidden, those first that the examples show first; those of the connection last."""
    options = [each for each in params if each.param_type_name == "option" and not getattr(each, "hidden", False)]
    shown = list(dict.fromkeys(each for line in examples for each in _OPTION.findall(line)))

    def place(param: Any) -> tuple[int, int]:
        if param.name in _LAST:
            return 1, _LAST.index(param.name)
        return 0, min([shown.index(each) for each in param.opts if each in shown], default=len(shown))

    return sorted(options, key=place)


def show_help(command: Any, ctx: Any) -> None:
    """Writes the page of a command or a group to stdout."""
    console = stdout()
    width = min(console.width, _WIDTH_MAX)
    examples = examples_of(command.help)
    params = command.get_params(ctx)
    options = ordered_options(params, examples)
    arguments = [each for each in params if each.param_type_name == "argument"]
    pieces = [ctx.command_path, "[OPTIONS]", *(_shown_argument(each) for each in arguments)]
    commands = _commands(command, ctx)
    pieces += ["COMMAND ..."] if commands else []
    _say(console, f"Usage: {' '.join(pieces)}", "bold")
    for paragraph in inspect.cleandoc((command.help or "").partition("\b")[0]).split("\n\n"):
        _say(console, "")
        for line in textwrap.wrap(" ".join(paragraph.split()), width):
            _say(console, line)
    _list(console, width, "Arguments", [(_shown_argument(each), _help_of(each, ctx)) for each in arguments])
    own = [each for each in options if each.name not in CONNECTION]
    _list(console, width, "Commands", commands)
    _list(console, width, "Options", [(_shown_option(each), _help_of(each, ctx)) for each in own])
    connection = [each for each in options if each.name in CONNECTION]
    _list(console, width, "Connection", [(_shown_option(each), _help_of(each, ctx)) for each in connection])
    _show_examples(console, command.help)


def _show_examples(console: Console, text: str | None) -> None:
    """As they are, with the lines between them that say what they are for."""
    shown = inspect.cleandoc(text or "").partition("\b")[2].strip("\n")
    if not shown:
        return
    _say(console, "")
    _say(console, "Examples:", "bold")
    for line in re.sub(r"\n    +(?!lakemq)(?=\S)", " ", textwrap.dedent(shown)).splitlines():
        _say(console, f"  {line.strip()}" if _EXAMPLE.match(line) else f"  # {line.strip().rstrip(':')}")


def _commands(group: Any, ctx: Any) -> list[tuple[str, str]]:
    if not hasattr(group, "commands"):
        return []
    found = [(name, group.get_command(ctx, name)) for name in group.list_commands(ctx)]
    return [
        (name, " ".join((each.short_help or each.help or "").partition("\n\n")[0].split()))
        for name, each in found
        if each is not None and not each.hidden
    ]


def _list(console: Console, width: int, title: str, rows: list[tuple[str, str]]) -> None:
    """Names to the left, what they are to the right."""
    if not rows:
        return
    _say(console, "")
    _say(console, f"{title}:", "bold")
    left = max((len(name) for name, _ in rows if len(name) <= _LEFT_MAX), default=_LEFT_MAX)
    for name, text in rows:
        lines = textwrap.wrap(text, max(width - left - 4, 20)) or [""]
        first = lines.pop(0) if len(name) <= left else ""
        console.print(
            Text.assemble("  ", (name.ljust(left), "cyan"), "  ", first), soft_wrap=True, end="\n", highlight=False
        )
        for line in lines:
            _say(console, " " * (left + 4) + line)


def _say(console: Console, line: str, style: str = "") -> None:
    console.print(Text(line, style), soft_wrap=True, highlight=False)


def _help_of(param: Any, ctx: Any) -> str:
    """What it is for, where it may be given else, and what it is without it."""
    parts = [" ".join((param.help or "").split())]
    parts += ["[required]"] if param.required else []
    if param.envvar and getattr(param, "show_envvar", False):
        parts.append(f"[env: {param.envvar}]")
    if default := _default_of(param, ctx):
        parts.append(f"[default: {default}]")
    return " ".join(parts)


def _default_of(param: Any, ctx: Any) -> str:
    if isinstance(param.show_default, str):
        return param.show_default
    value = param.get_default(ctx)
    if not param.show_default or value is None or value is False or value in ((), []):
        return ""
    if isinstance(value, float):
        return f"{value:g}"
    return str(value.value if isinstance(value, Enum) else value)


def _shown_argument(param: Any) -> str:
    name = str(param.metavar).strip("[]")
    name += "..." if param.nargs != 1 and not name.endswith("...") else ""
    return name if param.required else f"[{name}]"


def _shown_option(param: Any) -> str:
    names = ", ".join(sorted([*param.opts, *param.secondary_opts], key=len))
    return names if _is_flag(param) else f"{names} {param.metavar}"


def _is_flag(param: Any) -> bool:
    return bool(getattr(param, "is_flag", False)) or bool(getattr(param, "count", False))


def _name_of_value(param: Any) -> str:
    """After the type, or else after the option: the name of a tag is TAG, that of an ordering key KEY."""
    if param.param_type_name == "argument":
        return str(param.name).upper()
    words = max(param.opts, key=len).strip("-").upper().split("-")
    kind = _kind_of(param)
    if choices := choices_of(kind):
        return "|".join(choices)
    if kind in (int, float):
        return words[-1] if words[-1] in ("PORT", "MS") else "N"
    return words[-1]


def choices_of(kind: Any) -> tuple[str, ...]:
    """The words that a value is one of; empty where it may be another."""
    if get_origin(kind) is Literal:
        return get_args(kind)
    return tuple(str(each.value) for each in kind) if isinstance(kind, type) and issubclass(kind, Enum) else ()


def _kind_of(param: Any) -> Any:
    kind = param.type_descriptor.annotation
    return get_args(kind)[0] if get_origin(kind) is list else kind
