"""What a spreadsheet would run is text in the console's files of CSV."""

from __future__ import annotations

import csv
import io
import re

import pytest

from lakemq.console.spreadsheet import as_text, without_formulas


@pytest.mark.parametrize(
    "text", ['=HYPERLINK("http://x","y")', "+1+1", "-1+cmd", "-", "--1", "-1 ", "@SUM(A1)", "\t1", "\r1"]
)
def test_what_would_be_run_is_text(text: str) -> None:
    assert as_text(text) == f"'{text}"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\t=1", "'\t'=1"),
        ("\r=1", "'\r'=1"),
        ("a;=1", "a;'=1"),
        ("a; =1;b;@x", "a; '=1;b;'@x"),
        ('a;"=1"', 'a;"\'=1"'),
        ("a\n\n+1", "a\n\n'+1"),
        ("a;-1+x", "a;'-1+x"),
        ("a;-1", "a;'-1"),  # with the next cell it may be one: `-1,5+x`
        ("=a;=b", "'=a;'=b"),
    ],
)
def test_what_would_be_run_in_the_middle_by_who_separates_by_other_signs_is_text(text: str, shown: str) -> None:
    assert as_text(text) == shown


@pytest.mark.parametrize("separator", [";", "\t", ","])
def test_no_cell_is_a_formula_whatever_a_spreadsheet_separates_by(separator: str) -> None:
    """It has quotes for a cell that begins with one, and ends a line where these don't hold."""
    nasty = ["=1", "x;=1", "x\n=1", 'x";"=1', "x\t@a", ";=1", "\n\n;\t+1", "-5", "5+cmd|x", 'a;b"\r\n=2']
    nasty += ["x\t-1;5+cmd", "x;-1\t5+cmd", "x\n-1;5+cmd", "x\n-1\t5+cmd", "x;\t-1;5", "x;-5;y", "x\n-5"]
    rows = [[one, other] for one in nasty for other in nasty]
    written = io.StringIO(newline="")
    csv.writer(written).writerows(rows)
    found = without_formulas(written.getvalue().encode()).decode()
    cells = [cell for row in csv.reader(io.StringIO(found, newline=""), delimiter=separator) for cell in row]
    assert len(cells) >= len(rows)
    run = [cell for cell in cells if cell.lstrip(' "').startswith(("=", "+", "-", "@"))]
    assert not [cell for cell in run if not re.fullmatch(r"-5(,-5)?", cell)]


def test_a_long_run_of_line_ends_takes_no_longer_than_other_text() -> None:
    """Looked through from each of them, it would take hours."""
    assert as_text("\n" * 1_000_000 + "x") == "\n" * 1_000_000 + "x"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a=b",
        "-1",
        "-12.50",
        "-1.5e-10",
        "-1E+5",
        "1",
        "'=1",
        '["=1"]',
        "2026-01-01",
        "a;b",
        "a -1",
        "a;-1;b",
        "a\n-1.5\nb",
    ],
)
def test_all_else_is_as_it_is(text: str) -> None:
    assert as_text(text) == text


def test_a_file_has_the_same_cells_otherwise() -> None:
    rows = [["=head", "b"], ["@x", 'ä,\r\n="1"'], ["", ""], ["-5", "x" * 300_000]]
    written = io.StringIO(newline="")
    csv.writer(written).writerows(rows)
    csv.field_size_limit(131_072)
    found = without_formulas(written.getvalue().encode())
    expected = io.StringIO(newline="")
    csv.writer(expected).writerows([["'=head", "b"], ["'@x", 'ä,\r\n\'="1"'], *rows[2:]])
    assert found == expected.getvalue().encode()
    assert without_formulas(b"") == b""
    assert without_formulas(b'a\r\n""\r\n') == b'a\r\n""\r\n'
