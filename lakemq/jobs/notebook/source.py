"""Databricks' source format of a notebook: a Python file whose comments part it into cells.

```
# Databricks notebook source
# MAGIC %md
# MAGIC # A title

# COMMAND ----------

# DBTITLE 1,What this cell does
rows = spark.table("messages")

# COMMAND ----------

# MAGIC %sql
# MAGIC SELECT count(*) FROM messages
```

The first line says what it is; `# COMMAND ----------` stands between two cells; a cell that begins
with a magic is no Python and has `# MAGIC ` before each of its lines, as has a line of Python that
only IPython understands. What stands here was read off exports of Databricks: its documents show
the format by example only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from lakemq.jobs.errors import InvalidNotebook

HEADER = "# Databricks notebook source"
SEPARATOR = "# COMMAND ----------"
_MAGIC = re.compile(r"# MAGIC ?")
_TITLE = re.compile(r"# DBTITLE \d+,(.*)")
_LANGUAGE = re.compile(r"%(?P<language>[A-Za-z][\w-]*)(?:[ \t]+(?P<rest>.*))?\Z")


class Kind(StrEnum):
    """What a cell is written in."""

    PYTHON = "python"
    MARKDOWN = "markdown"
    SQL = "sql"
    SHELL = "shell"


_KINDS = {
    "python": Kind.PYTHON,
    "md": Kind.MARKDOWN,
    "md-sandbox": Kind.MARKDOWN,
    "sql": Kind.SQL,
    "sh": Kind.SHELL,
}
_ELSEWHERE = frozenset({"scala", "r", "fs", "run"})
"""Magics that Databricks alone carries out. Any other that is no language here is IPython's own."""


@dataclass(frozen=True)
class Cell:
    """One cell. `source` is what is to be run or shown, without the markers; `line` is where it begins
    in the file, counted from 1."""

    kind: Kind
    source: str
    line: int
    title: str | None = None


def parse(text: str) -> list[Cell]:
    """The cells of a notebook, without empty ones.

    Raises `InvalidNotebook`, with the line, for what is no notebook or needs Databricks to run.
    """
    lines = text.removeprefix("\ufeff").splitlines()
    if not lines or lines[0].rstrip() != HEADER:
        raise InvalidNotebook(f"line 1 is not {HEADER!r}: this is no notebook in Databricks' source format")
    return [cell for start, part in _parts(lines) if (cell := _cell(start, part)) is not None]


def _parts(lines: list[str]) -> Iterator[tuple[int, list[str]]]:
    """What stands between the separators, with the number of its first line, without empty lines around it."""
    start = 2
    part: list[str] = []
    for number, line in enumerate([*lines[1:], SEPARATOR], 2):
        if line.rstrip() != SEPARATOR:
            part.append(line.rstrip())
            continue
        blank = next((at for at, content in enumerate(part) if content), len(part))
        yield start + blank, "\n".join(part).strip("\n").split("\n")
        start, part = number + 1, []


def _cell(start: int, part: list[str]) -> Cell | None:
    title = None
    if found := _TITLE.fullmatch(part[0]):
        title, part, start = found.group(1).strip(), part[1:], start + 1
    kind = Kind.PYTHON
    if part and _MAGIC.match(part[0]):
        kind, part = _language(start, part)
    else:
        part = [_without_magic(line) for line in part]
    source = "\n".join(part).strip("\n")
    return Cell(kind, source, start, title) if source else None


def _language(start: int, part: list[str]) -> tuple[Kind, list[str]]:
    """What a cell of `# MAGIC` lines is, and its lines without the magic that says so."""
    bare = [_without_magic(line) for line in part]
    found = _LANGUAGE.fullmatch(bare[0])
    name = found.group("language") if found else ""
    if name in _ELSEWHERE:
        raise InvalidNotebook(f"line {start}: %{name} runs on Databricks only")
    if found is None or name not in _KINDS:
        return Kind.PYTHON, bare  # a magic of IPython's, such as %pip or %matplotlib
    rest = found.group("rest")
    return _KINDS[name], [*([rest] if rest else []), *bare[1:]]


def _without_magic(line: str) -> str:
    return _MAGIC.sub("", line, count=1) if line.startswith("# MAGIC") else line
