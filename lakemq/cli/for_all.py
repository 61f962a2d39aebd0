"""Options for all commands, wherever they stand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_THE_REST = "--"
"""After it nothing is an option."""


def names_for_all(command: Any) -> tuple[str, ...]:
    """The options of `lakemq` itself, whose tree of commands this is, that take a value."""
    with_value = (each for each in command.params if each.param_type_name == "option" and not each.is_flag)
    return tuple(name for each in with_value for name in each.opts)


def in_front(names: tuple[str, ...], arguments: Iterable[str]) -> list[str]:
    """The arguments with those of options for all commands, which have these names, in front of the command's name."""
    as_one = tuple(f"{name}=" for name in names)
    front: list[str] = []
    others: list[str] = []
    left = iter(arguments)
    for each in left:
        if each == _THE_REST:
            others += [each, *left]
        elif each in names:
            value = next(left, None)
            if value is None:  # where it stands it is said to be wrong
                others.append(each)
            else:
                front += [each, value]
        elif each.startswith(as_one):
            front.append(each)
        else:
            others.append(each)
    return [*front, *others]
