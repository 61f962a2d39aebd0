"""The public API as text: `python -m tests.client.public_api > tests/client/public_api.txt` pins it anew."""

from __future__ import annotations

import enum
import importlib
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any, is_typeddict

MODULES = ("lakemq.client", "lakemq.client.aio")


def describe() -> str:
    """A line for each name, method, field and option that users may use."""
    return "\n".join(line for name in MODULES for line in _module(importlib.import_module(name))) + "\n"


def _module(module: ModuleType) -> Iterator[str]:
    for name in sorted(module.__all__):
        found = getattr(module, name)
        yield f"{module.__name__}.{name}{_kind(found)}"
        yield from (f"    {line}" for line in _members(found))


def _kind(found: Any) -> str:
    if not inspect.isclass(found):
        return f"{_signature(found)}" if callable(found) else f" = {found!r}"
    if is_typeddict(found):
        return ": options"
    bases = ", ".join(base.__name__ for base in found.__bases__ if base is not object)
    return f"({bases})" if bases else ""


def _members(found: Any) -> Iterator[str]:
    if is_typeddict(found):
        yield from (f"{name}: {_type(kind)}" for name, kind in sorted(found.__annotations__.items()))
    elif inspect.isclass(found) and issubclass(found, enum.Enum):
        yield from (f"{member.name} = {member.value!r}" for member in found)
    elif inspect.isclass(found):
        yield from _methods(found)


def _methods(kind: type) -> Iterator[str]:
    if kind.__init__ is not object.__init__ and not issubclass(kind, tuple):
        yield f"__init__{_signature(kind.__init__)}"
    fields = getattr(kind, "_fields", None)
    if fields is not None:
        yield f"fields: {', '.join(fields)}"
    for base in kind.__mro__[::-1]:
        if not base.__module__.startswith("lakemq"):
            continue
        for name, member in sorted(vars(base).items()):
            if name.startswith("_") or name in (fields or ()):
                continue
            plain = inspect.unwrap(getattr(member, "__func__", member))
            if isinstance(member, property):
                yield name
            elif inspect.isfunction(plain):
                yield f"{'async ' if inspect.iscoroutinefunction(plain) else ''}{name}{_signature(plain)}"


def _type(kind: Any) -> str:
    return getattr(kind, "__forward_arg__", str(kind))


def _signature(function: Any) -> str:
    try:
        signature = str(inspect.signature(function)).replace("'", "")
    except (TypeError, ValueError):
        return "(…)"
    return re.sub(r"<function (\w+) at 0x\w+>", r"\1", signature)


if __name__ == "__main__":
    print(describe(), end="")  # noqa: T201
