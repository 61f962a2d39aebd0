"""Options for all commands, wherever they stand."""

from __future__ import annotations

from collections.abc import Iterable

FOR_ALL = ("--config", "--token-file")
_AS_ONE = tuple(f"{name}=" for name in FOR_ALL)
_THE_REST = "--"
"""After it nothing is an option."""


def in_front(arguments: Iterable[str]) -> list[str]:
    """The arguments with those of options for all commands in front of the command's name."""
    front: list[str] = []
    others: list[str] = []
    left = iter(arguments)
    for each in left:
        if each == _THE_REST:
            others += [each, *left]
        elif each in FOR_ALL:
            value = next(left, None)
            if value is None:  # where it stands it is said to be wrong
                others.append(each)
            else:
                front += [each, value]
        elif each.startswith(_AS_ONE):
            front.append(each)
        else:
            others.append(each)
    return [*front, *others]
