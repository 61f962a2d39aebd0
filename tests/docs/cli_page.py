"""docs/cli.md, made of the commands' help: `python -m tests.docs.cli_page` writes it anew."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lakemq.cli.help_page import choices_of
from tests.cli.examples import COMPLETION, ROOT, commands

FILE = Path("docs/cli.md")
_NAMES = {"int": "INTEGER", "float": "NUMBER", "Path": "FILE"}
_HEAD = """# Command line reference

<!-- made of the commands' help by `python -m tests.docs.cli_page` -->

Every command of `lakemq`, as its help shows it, with examples that the tests run. Commands exit with 0 if they
succeeded, 1 after an error (one line on stderr), 2 for wrong usage or a missing extra, and 130 after Ctrl-C.
"""


def page() -> str:
    """As Markdown."""
    found = sorted(commands())
    parts = [_HEAD, _contents(found), "## Options of all commands\n", *_options(ROOT)]
    for path, command in found:
        parts += [f"## lakemq {' '.join(path)}\n", *_command(path, command)]
    return "\n".join(parts).rstrip() + "\n"


def _contents(found: list[tuple[tuple[str, ...], Any]]) -> str:
    rows = [f"| [`lakemq {' '.join(path)}`](#lakemq-{'-'.join(path)}) | {_first(command)} |" for path, command in found]
    return "\n".join(["| command | |", "|---|---|", *rows]) + "\n"


def _first(command: Any) -> str:
    return _cell(_text(command).partition("\n\n")[0])


def _text(command: Any) -> str:
    said = inspect.cleandoc(command.help or "").partition("\b")[0].strip()
    return "\n\n".join(" ".join(each.split()) for each in said.split("\n\n"))


def _command(path: tuple[str, ...], command: Any) -> Iterator[str]:
    yield _text(command) + "\n"
    shown = inspect.cleandoc(command.help or "").partition("\b")[2].strip("\n")
    if shown:
        yield f"```sh\n{_examples(shown)}\n```\n"
    yield from _options(command)


def _examples(shown: str) -> str:
    return re.sub(r"\n\s*\n", "\n", inspect.cleandoc(shown))


def _options(command: Any) -> Iterator[str]:
    rows = [_row(each) for each in command.params if not each.hidden and each.name not in {*COMPLETION, "help"}]
    if rows:
        yield "| | default | |"
        yield "|---|---|---|"
        yield from rows
        yield ""


def _row(param: Any) -> str:
    if param.param_type_name == "argument":
        name = f"`{(param.metavar or param.name).strip('{}[]').upper()}`"
    else:
        name = ", ".join(f"`{each}`" for each in (*param.opts, *param.secondary_opts))
    default = "required" if param.required else _default(param)
    variable = param.envvar if isinstance(param.envvar, str) else ""
    text = (param.help or "") + (f" `{variable}`" if variable else "")
    return f"| {name}{_kind(param)} | {_cell(default)} | {_cell(text)} |"


def _kind(param: Any) -> str:
    """The values that it takes, unless it takes none."""
    kind = param.type_descriptor.annotation
    if param.param_type_name == "argument" or kind is bool:
        return ""
    if choices := choices_of(kind):
        return " " + "\\|".join(f"`{each}`" for each in choices)
    name = param.metavar or _NAMES.get(getattr(kind, "__name__", ""), "TEXT")
    return f" `{name}`".replace("|", "\\|")


def _default(param: Any) -> str:
    shown = getattr(param, "show_default", None)
    if isinstance(shown, str):
        return shown
    value = param.default
    if callable(value) or value in (None, False, (), []):
        return ""
    return f"`{getattr(value, 'value', value)}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main() -> None:
    """Write it."""
    FILE.write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
