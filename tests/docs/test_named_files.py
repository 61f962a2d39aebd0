"""A file or folder of ours that a document, a setting or a comment names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.documents import DOCUMENTS, ROOT

HOUSES = ("lakemq", "tests")
_ROOMS = "|".join(sorted(path.name for path in (ROOT / "lakemq").iterdir() if (path / "__init__.py").exists()))
_NAMED = re.compile(rf"(?<![\w/.-])((?:(?:lakemq|tests)/)?(?:{_ROOMS})/(?:\w+/)*\w+\.py)\b")
SOURCES = [
    path.relative_to(ROOT).as_posix()
    for pattern in ("lakemq/**/*.py", "scripts/*", "pyproject.toml", "Makefile")
    for path in sorted(ROOT.glob(pattern))
]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_document_names_files_that_are_there(document: str) -> None:
    assert _missing(ROOT / document) == []


def test_code_names_files_that_are_there() -> None:
    assert {name: missing for name in SOURCES if (missing := _missing(ROOT / name))} == {}


def _missing(path: Path) -> list[str]:
    named = set(_NAMED.findall(path.read_text(encoding="utf-8")))
    assert path.name != "ARCHITECTURE.md" or len(named) > 30
    return sorted(name for name in named if not any((ROOT / house / name).exists() for house in ("", *HOUSES)))
