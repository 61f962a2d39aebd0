"""Cells as a Jupyter notebook."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from lakemq.jobs.errors import InvalidNotebook
from lakemq.jobs.notebook.source import Cell, Kind, parse

LINE = "line"
"""Metadata of a cell: where it begins in the file that it was read from."""
NOTEBOOK_BYTES_MAX = 16 * 1024**2
_CELL_MAGIC = {Kind.SQL: "%%sql\n", Kind.SHELL: "%%sh\n", Kind.PYTHON: ""}
_KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}


def read_notebook(path: Path) -> nbformat.NotebookNode:
    """The notebook of a file in Databricks' source format; see `to_jupyter`.

    Raises `InvalidNotebook` for what is none, `OSError` for what can't be read.
    """
    if path.stat().st_size > NOTEBOOK_BYTES_MAX:
        raise InvalidNotebook(f"{path} has more than {NOTEBOOK_BYTES_MAX:,} bytes: this is no notebook")
    try:
        return to_jupyter(parse(path.read_text(encoding="utf-8")))
    except UnicodeDecodeError:
        raise InvalidNotebook(f"{path} is not UTF-8") from None
    except InvalidNotebook as error:
        raise InvalidNotebook(f"{path}: {error.detail}") from None


def to_jupyter(cells: list[Cell]) -> nbformat.NotebookNode:
    """The same cells in Jupyter's form: text is a Markdown cell, SQL a cell with `%%sql`.

    The same cells give the same notebook, with the same ids.
    """
    made: list[nbformat.NotebookNode] = []
    for number, cell in enumerate(cells, 1):
        if cell.title:
            made.append(new_markdown_cell(f"**{cell.title}**", id=f"title-{number}", metadata={LINE: cell.line}))
        identity = {"id": f"cell-{number}", "metadata": {LINE: cell.line}}
        if cell.kind is Kind.MARKDOWN:
            made.append(new_markdown_cell(cell.source, **identity))
        else:
            made.append(new_code_cell(_CELL_MAGIC[cell.kind] + cell.source, **identity))
    return new_notebook(cells=made, metadata={"kernelspec": _KERNEL, "language_info": {"name": "python"}})
