"""The examples in the commands' help, and what of the command line they show."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, cast

import typer
import typer.main

from lakemq.cli.app import app
from lakemq.cli.for_all import in_front, names_for_all

COMPLETION = {"install_completion", "show_completion"}
"""typer's own options, which write into the shell's files."""


class Flag(NamedTuple):
    """An option or argument of a command."""

    command: tuple[str, ...]
    name: str


@dataclass
class Call:
    """One `lakemq …`: what is fed to it, and where its answer goes."""

    arguments: list[str]
    before: str = ""
    """What is before it in its pipe."""
    files: dict[str, str] = field(default_factory=dict[str, str])
    """By sign: `<` and `>`."""

    @property
    def path(self) -> tuple[str, ...]:
        """The names of the command."""
        return _resolve(self.arguments)[0]

    def flags(self) -> set[Flag]:
        """What of the command line the call gives, the options before the command too."""
        path, command, arguments = _resolve(self.arguments)
        given = set(in_front(FOR_ALL, self.arguments)[: len(self.arguments) - len(arguments)])
        found = {Flag((), param.name) for param in ROOT.params if given & set(param.opts)}
        values, _, seen = command.make_parser(typer.Context(command)).parse_args(list(arguments))
        found |= {Flag(path, param.name) for param in seen if param.param_type_name == "option"}
        return found | {
            Flag(path, param.name)
            for param in command.params
            if param.param_type_name == "argument" and isinstance(values.get(param.name), str | list | tuple)
        }


ROOT = cast("Any", typer.main.get_command(app))
FOR_ALL = names_for_all(ROOT)


def commands(group: Any = ROOT, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each command that does something, with its names."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


def all_flags() -> set[Flag]:
    """All that a user may write."""
    roots = {Flag((), param.name) for param in ROOT.params if param.name not in COMPLETION}
    return roots | {
        Flag(path, param.name) for path, command in commands() for param in command.params if not param.hidden
    }


def all_examples() -> dict[str, Call]:
    """Each line in the help, by its text."""
    helps = [ROOT.help, *(command.help for _, command in commands())]
    return {line: call_of(line) for text in helps for line in lines_of(text)}


def lines_of(text: str) -> Iterator[str]:
    """The examples: lines after a \\b in which `lakemq` is run, with those that go on deeper to the right."""
    shown = text.partition("\b")[2]
    for block in re.findall(r"^ *(?:[^\n]*\| )?lakemq .*(?:\n    +(?!lakemq)\S.*)*", shown, re.MULTILINE):
        yield re.sub(r"\n *", " ", block.strip())


def shell_lines(document: Path) -> Iterator[str]:
    """The commands in a document's blocks of shell, each in one line; those of `make` are none of ours."""
    for block in re.findall(r"^```sh\n(.*?)^```", document.read_text(), re.MULTILINE | re.DOTALL):
        for command in re.findall(r"^\S.*(?:\n +\S.*)*", block, re.MULTILINE):
            line = re.sub(r" *\\?\n *", " ", command).partition("  #")[0].strip()
            if not line.startswith("make "):
                yield line


def call_of(line: str) -> Call:
    """The one call of lakemq in a line of shell: what comes after it in a pipe is left out."""
    before, _, rest = (
        line.rpartition("lakemq ") if "| lakemq " in line else ("", "", line.strip().removeprefix("lakemq "))
    )
    lexer = shlex.shlex(rest, posix=True, punctuation_chars="|<>")
    lexer.whitespace_split = True
    call = Call([], before.strip().removesuffix("|").strip())
    words = iter(lexer)
    for word in words:
        if word == "|":
            break
        if word in ("<", ">"):
            call.files[word] = next(words)
        else:
            call.arguments.append(word)
    return call


def together(first: str, second: str) -> str:
    """The first call, with what only the second one has."""
    words, other = first.split(" "), second.split(" ")
    same = next(at for at, (one, another) in enumerate(zip(words, other, strict=False)) if one != another)
    return " ".join([*words, *other[same:]])


def explained(call: Call) -> str:
    """The statement by which Spark says whether it understands the condition of `lakemq replay` or `lakemq erase`."""
    condition = call.arguments[call.arguments.index("--where") + 1]
    return f"EXPLAIN SELECT * FROM (SELECT *, explode(keys) AS key FROM messages) WHERE {condition}"


def _resolve(arguments: list[str]) -> tuple[tuple[str, ...], Any, list[str]]:
    """The names of the command, the command, and what stands after it."""
    rest = in_front(FOR_ALL, arguments)
    while rest and rest[0].startswith("--"):
        rest = rest[1:] if rest[0] == "--version" else rest[2:]
    names: list[str] = []
    command = ROOT
    while hasattr(command, "commands") and rest:
        names.append(rest.pop(0))
        command = command.commands[names[-1]]
    return tuple(names), command, rest
