"""What runs when something that users give is called: a function, or an object's `__call__`."""

from __future__ import annotations

import inspect


def bodies_of(given: object) -> tuple[object, object]:
    """What was given, and what a call of it runs."""
    return given, given if inspect.isroutine(given) else type(given).__call__


def is_async(given: object) -> bool:
    """Whether a call of it runs nothing until it is awaited."""
    return any(map(inspect.iscoroutinefunction, bodies_of(given)))
