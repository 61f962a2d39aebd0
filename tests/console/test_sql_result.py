"""What a page shows of a statement's rows."""

from __future__ import annotations

import json

import pytest

from lakemq.console.sql_result import (
    CELL_CHARACTERS_MAX,
    CELLS_SHOWN_MAX,
    COLUMNS_SHOWN_MAX,
    PLOT_ROWS_MAX,
    ROWS_SHOWN_MAX,
    Cell,
    cell_of,
    kind_of,
    result_of,
)


def columns(*types: str) -> list[dict[str, str]]:
    return [{"name": f"c{at}", "type": each} for at, each in enumerate(types)]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (0.5, "0.5"),
        ("x\ny", "x\ny"),
        ({"a": [1, "é"]}, '{"a": [1, "é"]}'),
        (12345678901234567890, "12345678901234567890"),
    ],
)
def test_values_are_shown_as_text(value: object, text: str) -> None:
    assert cell_of(value) == Cell(text)


def test_null_is_no_text_and_what_is_long_is_cut() -> None:
    assert cell_of(None) == Cell(None)
    assert cell_of("") == Cell("")
    cut = cell_of("x" * 1_000)
    assert cut.cut
    assert cut.text == "x" * (CELL_CHARACTERS_MAX - 1) + "…"


def test_kinds_of_columns_are_by_their_types() -> None:
    types = (
        "decimal(10,2)",
        "bigint",
        "timestamp",
        "date",
        "string",
        "boolean",
        "array<int>",
        "struct<a:int>",
        "binary",
    )
    assert [kind_of(each) for each in types] == ["number", "number", "time", "time", "label", "label", "", "", ""]


def test_long_and_wide_results_are_bounded_and_say_so() -> None:
    long = result_of({"columns": columns("bigint"), "rows": [[at] for at in range(20_000)], "truncated": True})
    assert (len(long.rows), long.found, long.truncated, long.plotted) == (ROWS_SHOWN_MAX, 20_000, True, PLOT_ROWS_MAX)
    wide = result_of({"columns": columns(*["int"] * 400), "rows": [[1] * 400] * 600, "truncated": False})
    assert (len(wide.columns), wide.more_columns) == (COLUMNS_SHOWN_MAX, 300)
    assert len(wide.rows) * len(wide.columns) <= CELLS_SHOWN_MAX
    assert {len(row) for row in wide.rows} == {COLUMNS_SHOWN_MAX}
    assert len(wide.plot) < 500_000


def test_a_chart_has_numbers_times_and_labels() -> None:
    rows = [
        ["2026-01-01T00:00:00.500Z", "1.50", None, [1]],
        ["2026-01-01", "NaN", "x" * 100, [2]],
        [None, "none", True, None],
    ]
    found = result_of(
        {"columns": columns("timestamp", "decimal(4,2)", "string", "array<int>"), "rows": rows, "truncated": False}
    )
    plot = json.loads(found.plot)
    assert [each["kind"] for each in plot] == ["time", "number", "label"]
    assert plot[0]["values"] == [1767225600.5, 1767225600.0, None]
    assert plot[1]["values"] == [1.5, None, None]
    assert plot[2]["values"] == ["null", "x" * 40, "true"]


def test_there_is_no_chart_of_text_alone() -> None:
    assert result_of({"columns": columns("string"), "rows": [["x"]], "truncated": False}).plot == ""
    assert result_of({"columns": columns("int"), "rows": [], "truncated": False}).plot == ""


def test_rows_of_days_and_countries_are_drawn_as_a_column_for_each_country() -> None:
    rows = [["2026-10-01", "BE", 1], ["2026-10-01", "DE", 2], ["2026-10-02", "BE", 3]]
    found = result_of({"columns": columns("date", "string", "bigint"), "rows": rows, "truncated": False})
    assert [(each["name"], each["kind"]) for each in json.loads(found.plot)] == [
        ("c0", "time"),
        ("BE", "number"),
        ("DE", "number"),
    ]
    assert [each["values"] for each in json.loads(found.plot)][1:] == [[1, 3], [2, None]]
    alone = result_of({"columns": columns("date", "string", "bigint"), "rows": rows[1:], "truncated": False})
    assert [each["name"] for each in json.loads(alone.plot)] == ["c0", "c1", "c2"]
