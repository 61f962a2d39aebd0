"""What the documents show: blocks, by their language, and code within sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/**/*.md", "notebooks/**/*.md")
    for path in sorted(ROOT.glob(pattern))
]

TYPED = {"sh", "sql", "python", "toml"}
"""Languages that somebody types: what is in such a block is run."""
SEEN = {"text", "mermaid"}
"""What somebody only looks at: answers, forms, pictures."""

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_COMMAND = re.compile(r"^\S.*(?:\n +\S.*)*", re.MULTILINE)


class Block(NamedTuple):
    """A fenced block."""

    document: str
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.document}:{self.line}"

    def commands(self) -> Iterator[str]:
        """The commands of a block of shell, each in one line, without what is said of it."""
        for command in _COMMAND.findall(self.text):
            yield re.sub(r" *\\?\n *", " ", command).partition("  #")[0].strip()


def blocks(*documents: str) -> list[Block]:
    """All blocks of these documents, or of all."""
    return [block for document in documents or DOCUMENTS for block in _blocks_of(document)]


def _blocks_of(document: str) -> Iterator[Block]:
    text = (ROOT / document).read_text()
    for found in _FENCE.finditer(text):
        yield Block(document, text.count("\n", 0, found.start()) + 1, found.group(1), found.group(2))


def spans() -> dict[str, str]:
    """Code within the sentences of all documents, and where it first stands."""
    found: dict[str, str] = {}
    for document in DOCUMENTS:
        text = _FENCE.sub("", (ROOT / document).read_text())
        for span in _SPAN.findall(text):
            found.setdefault(re.sub(r"\s*\n\s*", " ", span), document)
    return found
