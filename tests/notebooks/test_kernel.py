"""What a notebook's process has, as far as it needs no Spark."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from lakemq.jobs.notebook import display
from lakemq.jobs.notebook.html import to_html
from lakemq.jobs.notebook.kernel import statements_of
from lakemq.jobs.notebook.table import Table


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1;\nSELECT 2;\n", ["SELECT 1", "SELECT 2"]),
        ("SELECT ';' AS a; -- a; comment\nSELECT \"b;\"", ["SELECT ';' AS a", '-- a; comment\nSELECT "b;"']),
        ("; ;\n-- nothing\n", []),
        ("SELECT 'open; SELECT 2", ["SELECT 'open; SELECT 2"]),
    ],
)
def test_semicolons_part_statements(text: str, statements: list[str]) -> None:
    assert statements_of(text) == statements


def test_a_table_shows_bodies_as_text_and_numbers_to_the_right() -> None:
    rows = [(b"gr\xc3\xbc\xc3\x9f", 1, None, True), (b"\xff", 20, 0.123456789, False)]
    assert Table(["body", "n", "ratio", "ok"], rows).text().splitlines() == [
        "body   n     ratio  ok",
        "----  --  --------  -----",
        "grüß   1            true",
        "/w==  20  0.123457  false",
        "(2 rows)",
    ]


def test_what_stands_in_a_message_is_shown_and_never_interpreted() -> None:
    table = Table(["<b>"], [("<script>alert(1)</script>\x1b[31m",)], more=True)
    assert "<script>" not in table.html()
    assert "&lt;script&gt;" in table.html()
    assert "\x1b" not in table.text()
    assert "the first 1 rows" in table.text()


def test_times_lists_and_long_cells() -> None:
    row = (datetime(2013, 1, 1, 5, 15, tzinfo=UTC), ["k"], {"a": 1}, "x" * 1000)
    html = Table(["time", "keys", "properties", "long"], [row]).html()
    assert "2013-01-01T05:15:00.000Z" in html
    assert "[&quot;k&quot;]" in html
    assert "…" in html
    assert "x" * 300 not in html


def test_without_ipython_display_prints(capsys: pytest.CaptureFixture[str]) -> None:
    display({"a": 1})
    assert capsys.readouterr().out == "{'a': 1}\n"


def test_the_page_loads_nothing_and_escapes_what_cells_print() -> None:
    printed = new_output("stream", text="<script>alert(1)</script>")
    cells = [new_markdown_cell("# Title", id="a"), new_code_cell("1 < 2", id="b", outputs=[printed])]
    page = to_html(new_notebook(cells=cells), "1 & 2")
    assert "<title>1 &amp; 2</title>" in page
    assert "<script" not in page
    assert "&lt;script&gt;" in page
