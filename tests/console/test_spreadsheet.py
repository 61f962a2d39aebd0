"""What a spreadsheet would run is text in the console's files of CSV."""

from __future__ import annotations

import csv
import io

import pytest

from lakemq.console.spreadsheet import as_text, without_formulas


@pytest.mark.parametrize(
    "text", ['=HYPERLINK("http://x","y")', "+1+1", "-1+cmd", "-", "--1", "-1 ", "@SUM(A1)", "\t=1", "\r=1"]
)
def test_what_would_be_run_is_text(text: str) -> None:
    assert as_text(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "a=b", "-1", "-12.50", "-1.5e-10", "-1E+5", "1", "'=1", '["=1"]', "2026-01-01"])
def test_all_else_is_as_it_is(text: str) -> None:
    assert as_text(text) == text


def test_a_file_has_the_same_cells_otherwise() -> None:
    rows = [["=head", "b"], ["@x", 'ä,\r\n="1"'], ["", ""], ["-5", "x" * 300_000]]
    written = io.StringIO(newline="")
    csv.writer(written).writerows(rows)
    csv.field_size_limit(131_072)
    found = without_formulas(written.getvalue().encode())
    expected = io.StringIO(newline="")
    csv.writer(expected).writerows([["'=head", "b"], ["'@x", 'ä,\r\n="1"'], *rows[2:]])
    assert found == expected.getvalue().encode()
    assert without_formulas(b"") == b""
    assert without_formulas(b'a\r\n""\r\n') == b'a\r\n""\r\n'
