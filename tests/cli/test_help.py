"""Every `--help` by the same rules."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest
import typer

from lakemq.cli.help_page import CONNECTION, examples_of, ordered_options, show_help
from tests.cli.examples import ROOT, call_of

SHORT_MAX = 72
"""Characters of what a list of commands says of one: with the longest name it takes a line of 90 columns."""
VALUE = re.compile(r"\[?([A-Z][A-Z0-9_]*|[a-z0-9-]+)(\|{1,2}([A-Z][A-Z0-9_]*|[a-z0-9-]+))*(=VALUE)?\]?")
"""A word in capitals stands for a value; what is to be written as it is stands in small letters."""
FIRST = 3
WIDE = 80


def every(group: Any = ROOT, path: tuple[str, ...] = ("lakemq",)) -> list[Any]:
    """Each command and group, with its names."""
    found = [pytest.param(group, path, id=" ".join(path))]
    for name, command in getattr(group, "commands", {}).items():
        found += every(command, (*path, name))
    return found


def page(command: Any, path: tuple[str, ...], columns: int, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> list[str]:
    monkeypatch.setattr("lakemq.cli.output.PLAIN_WIDTH", columns)
    show_help(command, typer.Context(command, info_name=" ".join(path)))
    return capsys.readouterr().out.splitlines()


def options_of(command: Any) -> list[Any]:
    return ordered_options(command.params, examples_of(command.help))


@pytest.mark.parametrize("columns", [40, WIDE])
@pytest.mark.parametrize(("command", "path"), every())
def test_examples_stay_in_one_line_and_all_else_fits(
    command: Any,
    path: tuple[str, ...],
    columns: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = page(command, path, columns, monkeypatch, capsys)
    examples = examples_of(command.help)
    assert examples or hasattr(command, "commands")
    assert [line for line in examples if f"  {line}" not in lines] == []
    text = lines[1 : lines.index("Examples:") if examples else len(lines)]
    if columns == WIDE:  # where names of options have room
        assert [line for line in text if len(line) > WIDE] == []


@pytest.mark.parametrize(("command", "path"), every())
def test_what_stands_for_values_is_of_one_kind(command: Any, path: tuple[str, ...]) -> None:
    shown = {param.name: param.metavar for param in command.params if not getattr(param, "hidden", False)}
    flags = {param.name for param in command.params if getattr(param, "is_flag", False)}
    wrong = {name: text for name, text in shown.items() if name not in flags and not VALUE.fullmatch(text or "")}
    assert wrong == {}
    arguments = {each.metavar for each in command.params if each.param_type_name == "argument"}
    assert {each for each in arguments if each != each.upper()} == set()


@pytest.mark.parametrize(("command", "path"), every())
def test_the_first_options_are_those_that_the_first_examples_use(command: Any, path: tuple[str, ...]) -> None:
    options = [param.name for param in options_of(command) if param.name != "help"]
    connection = [name for name in options if name in CONNECTION]
    assert options[len(options) - len(connection) :] == connection == [n for n in CONNECTION if n in connection]
    if path == ("lakemq",):
        return
    seen: list[str] = []
    for example in examples_of(command.help):
        given = call_of(example).flags()
        own = {flag.name for flag in given if flag.name in options and flag.name not in CONNECTION}
        new = [name for name in options if name in own - set(seen)]
        assert options[len(seen) : len(seen) + len(new)] == new or len(seen) >= FIRST, example
        assert seen or len(new) <= FIRST, f"the first example shows more than {FIRST} options"
        seen += new


@pytest.mark.parametrize(("command", "path"), every())
def test_help_is_short_plain_and_complete(command: Any, path: tuple[str, ...]) -> None:
    first = " ".join(inspect.cleandoc(command.help or "").partition("\n\n")[0].split())
    assert first.endswith(".")
    if len(path) > 1:
        assert len(first) <= SHORT_MAX, first
    for param in command.params:
        if not getattr(param, "hidden", False):
            assert (param.help or "").endswith((".", "…")), param.name
            assert (param.help or "")[0].isupper(), param.name
    text = " ".join([command.help.partition("\b")[0], *(param.help or "" for param in command.params)])
    assert not re.search(
        r"\b(so many|so long|what of it|by which to say|heard of|who (asks|has|may|waits))\b", text, re.I
    )
