"""Where the commands write: answers to stdout, everything about them to stderr."""

from __future__ import annotations

import logging
import sys

import orjson
import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from typer import TyperException

from lakemq.logs import say
from lakemq.model.safe_text import safe_json

PLAIN_WIDTH = 100
"""Columns of a table where there is no terminal to ask."""


def stdout() -> Console:
    """The console for answers; without a terminal it writes plain text and wraps nothing away."""
    return _console(stderr=False)


def stderr() -> Console:
    """The console for what is about the answers: progress, counts, errors."""
    return _console(stderr=True)


def write_line(text: str) -> None:
    """One line of an answer, unchanged: no markup, no wrapping."""
    sys.stdout.write(text + "\n")


def write_json(value: object) -> None:
    """A value as one line of JSON that can't steer the terminal."""
    write_line(safe_json(orjson.dumps(value).decode()))


def note(text: str) -> None:
    """One line about the work, to stderr."""
    say(text)


def remark(text: str) -> None:
    """One line of the command's own, among those of what it ran, to stderr."""
    say(f"lakemq: {text}")


def fail(detail: str, code: int = 1) -> int:
    """Say in one line what is wrong; returns the exit code for it."""
    say("lakemq: " + " ".join(detail.split()), logging.ERROR)
    return code


def fail_usage(error: TyperException) -> int:
    """Say in one line how the command was used wrongly; returns the exit code for it."""
    context: typer.Context | None = getattr(error, "ctx", None)
    if type(error).__name__ != "NoArgsIsHelpError":  # which has shown the help already
        command = context.command_path if context is not None else "lakemq"
        said = None if context is None else _misplaced(context, getattr(error, "option_name", None))
        fail(f"{error.format_message()} (see {command} --help)" if said is None else said)
    return error.exit_code


def _misplaced(context: typer.Context, option: str | None) -> str | None:
    """What to say of an option that does its work without any command, as `--version`; None where it is no such one."""
    root = context.find_root()
    if context is root or option is None:
        return None
    for each in root.command.params:
        is_own = any(option in own.opts for own in context.command.params)
        if option in each.opts and getattr(each, "is_flag", False) and not is_own:
            return f"{option} stands alone: {root.command_path} {option}"
    return None


def progress(*columns: ProgressColumn) -> Progress:
    """A progress bar on stderr; silent where that is no terminal."""
    shown = columns or (BarColumn(), MofNCompleteColumn(), TaskProgressColumn())
    console = stderr()
    return Progress(
        TextColumn("{task.description}"),
        *shown,
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
    )


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else PLAIN_WIDTH
    return Console(stderr=stderr, width=width, highlight=False)
