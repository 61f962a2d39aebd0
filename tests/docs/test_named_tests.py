"""A test that a document names is there, and so is one for each invariant of docs/fleet.md."""

from __future__ import annotations

import re

import pytest

from tests.docs.documents import DOCUMENTS, ROOT

_TEST = re.compile(r"^(?:async )?def (test_\w+)\(", re.MULTILINE)
_NAMED = re.compile(r"`(test_\w+)`")
_INVARIANT = re.compile(r"^\| \d+ \| .*\|$", re.MULTILINE)
INVARIANTS = 24


def _tests() -> set[str]:
    paths = (ROOT / "tests").rglob("test_*.py")
    return {name for path in paths for name in _TEST.findall(path.read_text(encoding="utf-8"))}


@pytest.fixture(scope="module")
def tests() -> set[str]:
    return _tests()


def test_documents_name_tests_that_are_there(tests: set[str]) -> None:
    named = {name: set(_NAMED.findall((ROOT / name).read_text(encoding="utf-8"))) for name in DOCUMENTS}
    assert {name: missing for name, found in named.items() if (missing := found - tests)} == {}


def test_each_invariant_of_a_fleet_names_its_tests() -> None:
    rows = _INVARIANT.findall((ROOT / "docs/fleet.md").read_text(encoding="utf-8"))
    assert len(rows) == INVARIANTS
    assert [row for row in rows if not _NAMED.search(row)] == []
