"""docs/settings.md, made of the settings: `python -m tests.docs.settings` writes it anew."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, cast, get_args, get_origin

import annotated_types as at
from pydantic.fields import FieldInfo

from lakemq.settings import GIB, HOUR_MS, KIB, MIB, Settings
from lakemq.settings.section import Section
from tests.docs.described import described

FILE = Path("docs/settings.md")
_HEAD = """# Settings

<!-- made of lakemq/settings/ by `python -m tests.docs.settings` -->

A settings file in TOML (`conf/lakemq.toml`, or the file that `--config` names) overrides the defaults, the environment
overrides the file, and the options of a command override the environment. In the file, each setting is in its section;
in the environment it is called `LAKEMQ_SECTION__KEY`:

```text
[storage]
flush = "sync"
```

is `LAKEMQ_STORAGE__FLUSH=sync`. In the environment, lists are separated by commas, and settings with names of your own
are a JSON object. An unknown or impossible setting is an error that names it and where it was set, before anything
starts. Names that end in `_ms` are milliseconds, in `_bytes` bytes; `_max` and `_min` are limits.
"""
_SIZES = ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB"))
_TIMES = ((24 * HOUR_MS, "d"), (HOUR_MS, "h"), (60_000, "min"), (1_000, "s"))


def page() -> str:
    """As Markdown."""
    return "\n".join([_HEAD, *(each for name, kind in sections() for each in _section(name, kind))]) + "\n"


def sections() -> Iterator[tuple[str, type[Section]]]:
    """Each by its name."""
    for name, field in Settings.model_fields.items():
        kind: Any = field.default_factory
        yield name, kind


def _section(name: str, kind: type[Section]) -> Iterator[str]:
    yield f"## {name}\n"
    for each in reversed(_lines_of(kind)):
        yield inspect.cleandoc(each.__doc__ or "") + "\n"
    yield "| setting | default | may be | |"
    yield "|---|---|---|---|"
    said = texts_of(kind)
    for key, field in kind.model_fields.items():
        yield f"| `{name}.{key}` | {_default(key, field)} | {_bounds(key, field)} | {said.get(key, '')} |"
    yield ""


def _lines_of(kind: type[Section]) -> list[type[Section]]:
    """The class and those that it is made of."""
    return [each for each in kind.__mro__ if issubclass(each, Section) and each is not Section]


def texts_of(kind: type[Section]) -> dict[str, str]:
    """What stands below each setting that is described there."""
    found: dict[str, str] = {}
    for each in reversed(_lines_of(kind)):
        found |= described(each)
    return found


def _default(key: str, field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if isinstance(value, Section):
        return "see below"
    return _shown(key, value)


def _shown(key: str, value: Any) -> str:
    if value is None or value in ("", (), {}):
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join(_shown("_ms" if key == "levels" else key, each) for each in cast("tuple[Any, ...]", value))
    if isinstance(value, int | float):
        units = _SIZES if "bytes" in key else _TIMES if "_ms" in key else ()
        for unit, name in units:
            if value and value % unit == 0:
                return f"{value // unit:,} {name}"
        if key.endswith("port"):
            return str(value)
        return f"{value:,} ms" if "_ms" in key and value > 0 else f"{value:,}"
    return f"`{value}`"


def _bounds(key: str, field: FieldInfo) -> str:
    if get_origin(field.annotation) is Literal:
        return ", ".join(f"`{each}`" for each in get_args(field.annotation))
    low = [_shown(key, each.ge) for each in field.metadata if isinstance(each, at.Ge)]
    low += [f"above {_shown(key, each.gt)}" for each in field.metadata if isinstance(each, at.Gt)]
    high = [_shown(key, each.le) for each in field.metadata if isinstance(each, at.Le)]
    return " to ".join([*low, *high]) if low and high else f"from {low[0]}" if low else ""


def main() -> None:
    """Write it."""
    FILE.write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
