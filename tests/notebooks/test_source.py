"""Databricks' source format, read."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from lakemq.jobs.errors import InvalidNotebook
from lakemq.jobs.notebook.source import Cell, Kind, parse
from lakemq.jobs.notebook.to_jupyter import read_notebook, to_jupyter

NOTEBOOK = """\
# Databricks notebook source
# MAGIC %md
# MAGIC # Title
# MAGIC
# MAGIC Text with `# MAGIC` in it.

# COMMAND ----------

import os

# A comment between.
x = 1

# COMMAND ----------

# DBTITLE 1,How many
# MAGIC %sql
# MAGIC SELECT count(*)
# MAGIC FROM messages

# COMMAND ----------



# COMMAND ----------

# MAGIC %sql SELECT 1

# COMMAND ----------

# MAGIC %pip install lakemq

# COMMAND ----------

# MAGIC %sh
# MAGIC echo hello

# COMMAND ----------

# DBTITLE 1,Mixed
x += 1
# MAGIC %matplotlib inline
display(x)
"""


def test_cells_are_what_databricks_shows() -> None:
    assert parse(NOTEBOOK) == [
        Cell(Kind.MARKDOWN, "# Title\n\nText with `# MAGIC` in it.", 2),
        Cell(Kind.PYTHON, "import os\n\n# A comment between.\nx = 1", 9),
        Cell(Kind.SQL, "SELECT count(*)\nFROM messages", 17, "How many"),
        Cell(Kind.SQL, "SELECT 1", 27),
        Cell(Kind.PYTHON, "%pip install lakemq", 31),
        Cell(Kind.SHELL, "echo hello", 35),
        Cell(Kind.PYTHON, "x += 1\n%matplotlib inline\ndisplay(x)", 41, "Mixed"),
    ]


def test_line_ends_and_a_byte_order_mark_make_no_difference() -> None:
    assert parse("\ufeff" + NOTEBOOK.replace("\n", "\r\n")) == parse(NOTEBOOK)


def test_a_separator_at_either_end_makes_no_cell() -> None:
    body = "# Databricks notebook source\n\n# COMMAND ----------\n1\n\n# COMMAND ----------\n"
    assert parse(body) == [Cell(Kind.PYTHON, "1", 4)]
    assert parse("# Databricks notebook source") == []


@pytest.mark.parametrize(
    "text", ["", "print(1)\n", "# databricks notebook source\n", "\n# Databricks notebook source\n"]
)
def test_any_other_file_is_refused(text: str) -> None:
    with pytest.raises(InvalidNotebook, match="line 1"):
        parse(text)


@pytest.mark.parametrize("magic", ["scala", "r", "fs ls", "run ./other"])
def test_what_needs_databricks_is_refused_with_its_line(magic: str) -> None:
    with pytest.raises(InvalidNotebook, match=f"line 5: %{magic.split()[0]} "):
        parse(f"# Databricks notebook source\n1\n\n# COMMAND ----------\n# MAGIC %{magic}\n")


def test_jupyter_gets_valid_cells_that_are_the_same_each_time() -> None:
    notebook = to_jupyter(parse(NOTEBOOK))
    nbformat.validate(notebook)
    assert notebook == to_jupyter(parse(NOTEBOOK))
    sources = [(cell.cell_type, cell.source) for cell in notebook.cells]
    assert sources[2:5] == [
        ("markdown", "**How many**"),
        ("code", "%%sql\nSELECT count(*)\nFROM messages"),
        ("code", "%%sql\nSELECT 1"),
    ]
    assert ("code", "%%sh\necho hello") in sources
    assert [cell.metadata["line"] for cell in notebook.cells] == [2, 9, 17, 17, 27, 31, 35, 41, 41]


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "n.py"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidNotebook, match="not UTF-8"):
        read_notebook(path)
    path.write_text("1")
    with pytest.raises(InvalidNotebook, match=r"n\.py: line 1"):
        read_notebook(path)
