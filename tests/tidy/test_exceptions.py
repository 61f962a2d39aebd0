"""Exceptions of ruff's S rules, which are about security: each says why it is none of their cases."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("lakemq", "pyspark_lakemq", "scripts")
"""Where the rules hold; pyproject.toml says why not elsewhere."""
CODE = r"[A-Z]+[0-9]+"
NOQA = re.compile(rf"# (?:ruff: )?noqa(?::(?P<codes>\s*{CODE}(?:[\s,]+{CODE}\b)*))?(?P<reason>.*)")
SECURITY = re.compile(r"S[0-9]*")
REASON = re.compile(r"[\w']{2,}|\b[Aa] \w")
"""A word at least, beside signs."""
IGNORED = re.compile(r'^\s*"?[^"=]*"?\s*(?:=\s*\[\s*)?"(S[0-9]*)"[,\s\]]*(#.*)?$')


def unexplained(text: str) -> list[str]:
    """The lines of Python that except something from a rule of S, or from all rules, and don't say why."""
    found: list[str] = []
    for line in text.splitlines():
        if (noqa := NOQA.search(line)) is not None:
            codes = re.findall(CODE, noqa["codes"]) if noqa["codes"] else ["S"]
            if any(SECURITY.fullmatch(code) for code in codes) and not REASON.search(noqa["reason"]):
                found.append(line.strip())
    return found


def unexplained_in_settings(text: str) -> list[str]:
    """So for ruff's settings: the lines that leave out a rule of S without a comment behind it."""
    ignored = [(line.strip(), found) for line in text.splitlines() if (found := IGNORED.match(line)) is not None]
    return [line for line, found in ignored if not REASON.search((found[2] or "").removeprefix("#"))]


@pytest.mark.parametrize(
    "line",
    [
        "x = 1  # noqa: S608",
        "x = 1  # noqa: S608 ()",
        "x = 1  # noqa: E501, S105",
        "x = 1  # noqa: S105,E501  .",
        "x = 1  # noqa",
        "# ruff: noqa: S",
    ],
)
def test_an_exception_without_a_reason_is_found(line: str) -> None:
    assert unexplained(line) == [line]


@pytest.mark.parametrize(
    "line",
    [
        "x = 1  # noqa: S608 (a name)",
        "x = 1  # noqa: S311  no secret",
        "x = 1  # noqa: SIM115",
        "x = 1  # noqa: E501, S105 (ours)",
    ],
)
def test_an_exception_with_one_is_not(line: str) -> None:
    assert not unexplained(line)


def test_each_exception_in_the_code_has_its_reason() -> None:
    files = [path for room in ROOMS for path in (ROOT / room).rglob("*.py")]
    assert len(files) > 400
    assert not {str(path.relative_to(ROOT)): lines for path in files if (lines := unexplained(path.read_text()))}


def test_each_rule_that_is_left_out_for_files_has_its_reason() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    assert not unexplained_in_settings(text)
    assert unexplained_in_settings('ignore = ["S101"]') == ['ignore = ["S101"]']
    assert not unexplained_in_settings('"scripts/**" = ["S"]  # what they are for')
    lint = tomllib.loads(text)["tool"]["ruff"]["lint"]
    left_out = [*lint["ignore"], *(code for codes in lint["per-file-ignores"].values() for code in codes)]
    named = sum(bool(IGNORED.match(line)) for line in text.splitlines())
    assert named == sum(bool(SECURITY.fullmatch(code)) for code in left_out), "one of S a line, so that it has a reason"
