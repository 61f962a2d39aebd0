"""docs/client_api.md, made of docstrings: `python -m tests.docs.client_page` writes it anew."""
# ruff: noqa: E501
# (lines of the page, as they stand there)

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, is_typeddict

from lakemq import client
from lakemq.client import LakemqError, aio
from tests.docs.described import described

FILE = Path("docs/client_api.md")
_HEAD = """# Client reference

<!-- made of the docstrings of lakemq.client by `python -m tests.docs.client_page` -->

Everything that `lakemq.client` exports, except its errors, which are in [errors.md](errors.md). [client.md](client.md) shows how to
use it. `lakemq.client.aio` has the same names for asyncio: methods that do I/O are coroutines there, iterators are asynchronous, and
listeners may be coroutine functions. Its differences are at the end.
"""
_GROUPS = (
    ("Producers", ("Producer", "TransactionProducer", "ProducerOptions", "Message", "MessageFields")),
    ("Consumers", ("PushConsumer", "SimpleConsumer", "PullConsumer", "PushOptions", "SimpleOptions", "PullOptions")),
    ("Messages", ("MessageView", "MessageBatch", "MessageQueue")),
    ("Applications", ("App", "AppOptions", "TestApp", "Resource", "Sent", "Health")),
    ("Administration", ("Admin", "AdminOptions")),
    (
        "SQL and frames",
        ("sql", "read_sql", "read_topic", "read_backlog", "write_topic", "Frame", "SqlRows", "SqlOptions"),
    ),
)


def page() -> str:
    """As Markdown."""
    grouped = {name for _, names in _GROUPS for name in names}
    others = tuple(
        name for name in sorted(client.__all__, key=str.lower) if name not in grouped and not _is_error(name)
    )
    parts = [_HEAD]
    for title, names in (*_GROUPS, ("Other types", others)):
        parts.append(f"## {title}\n")
        parts += [line for name in names for line in _entry(name, getattr(client, name))]
    parts.append("## With asyncio\n")
    parts += _differences()
    return "\n".join(parts).rstrip() + "\n"


def _is_error(name: str) -> bool:
    found = getattr(client, name)
    return isinstance(found, type) and issubclass(found, LakemqError)


def _entry(name: str, found: Any) -> Iterator[str]:
    yield f"### {name}\n"
    if not inspect.isclass(found):
        if inspect.isfunction(found):
            yield f"`{name}{_signature(found)}`\n"
            yield _text(found)
        else:
            yield f"`{_plain(str(found))}`\n"
        return
    yield _text(found)
    if is_typeddict(found):
        yield from _options(found)
    elif issubclass(found, enum.Enum):
        yield from (f"- `{each.name}`: `{each.value!r}`" for each in found)
        yield ""
    else:
        yield from _fields(found)
        yield from _methods(found)


def _options(found: Any) -> Iterator[str]:
    said = _described(found)
    yield "| option | type | |"
    yield "|---|---|---|"
    for key, kind in sorted(found.__annotations__.items()):
        yield f"| `{key}` | {_code(getattr(kind, '__forward_arg__', str(kind)))} | {_cell(said.get(key, ''))} |"
    yield ""


def _described(found: Any) -> dict[str, str]:
    said: dict[str, str] = {}
    for base in getattr(found, "__orig_bases__", ()):
        if is_typeddict(base):
            said |= _described(base)
    return said | described(found)


def _fields(found: type) -> Iterator[str]:
    names = getattr(found, "_fields", None) or tuple(getattr(found, "__dataclass_fields__", ()))
    if names:
        said = described(found)
        kinds = {
            name: str(kind) for each in reversed(found.__mro__) for name, kind in inspect.get_annotations(each).items()
        }
        yield "| field | type | |"
        yield "|---|---|---|"
        yield from (f"| `{name}` | {_code(kinds.get(name, ''))} | {_cell(said.get(name, ''))} |" for name in names)
        yield ""


def _methods(found: type) -> Iterator[str]:
    fields = getattr(found, "_fields", None) or tuple(getattr(found, "__dataclass_fields__", ()))
    members: dict[str, Any] = {}
    bases = [base for base in found.__mro__[1:] if getattr(client, base.__name__, None) is base]
    if bases:
        yield f"And all of [`{bases[0].__name__}`](#{bases[0].__name__.lower()}).\n"
    of_bases = {each for base in bases for each in base.__mro__}
    for base in found.__mro__[::-1]:
        if base.__module__.startswith("lakemq") and base not in of_bases:
            members |= {name: each for name, each in vars(base).items() if not name.startswith("_")}
    for name, member in sorted(members.items()):
        if name in fields:
            continue
        plain = inspect.unwrap(getattr(member, "__func__", member))
        if isinstance(member, property):
            yield f"**`{name}`**\n\n{_text(member)}"
        elif inspect.isfunction(plain):
            word = "async " if inspect.iscoroutinefunction(plain) or inspect.isasyncgenfunction(plain) else ""
            yield f"**`{word}{name}{_signature(plain)}`**\n\n{_text(plain)}"


def _differences() -> Iterator[str]:
    only = sorted(set(aio.__all__) - set(client.__all__))
    lacking = sorted(set(client.__all__) - set(aio.__all__))
    yield "Only in `lakemq.client.aio`: " + (", ".join(f"`{each}`" for each in only) or "nothing") + ".\n"
    yield "Only in `lakemq.client`: " + (", ".join(f"`{each}`" for each in lacking) or "nothing") + ".\n"
    for name in only:
        yield from _entry(name, getattr(aio, name))


def _text(found: Any) -> str:
    said = inspect.cleandoc(found.__doc__ or "") if not isinstance(found, property) else inspect.getdoc(found) or ""
    return said + "\n"


def _signature(function: Any) -> str:
    try:
        shown = str(inspect.signature(function)).replace("'", "")
    except (TypeError, ValueError):
        return "(…)"
    shown = re.sub(r"^\((?:self|cls)(?:, )?", "(", re.sub(r"<function (\w+) at 0x\w+>", r"\1", shown))
    return _plain(shown)


def _plain(text: str) -> str:
    text = re.sub(r"ForwardRef\('([^']*)'[^)]*\)", r"\1", text)
    text = re.sub(r"<class '([\w.]+)'>", r"\1", text)
    return re.sub(r"\b(?:lakemq|collections|typing|datetime|concurrent)(?:\.\w+)*\.(?=[A-Za-z])", "", text)


def _code(text: str) -> str:
    shown = _plain(text).replace("|", "\\|")
    return f"`{shown}`" if shown else ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main() -> None:
    """Write it."""
    FILE.write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
