"""A notebook with its outputs in a file: a page of HTML that needs nothing from elsewhere, or Jupyter's form."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
from nbconvert import HTMLExporter

# Jupyter's own page, without the scripts that it would load for mathematics, widgets and diagrams.
_TEMPLATE = """\
{%- extends "lab/index.html.j2" -%}
{%- block html_head_js -%}{%- endblock -%}
{%- block html_head_js_mathjax -%}{%- endblock -%}
{%- block html_head_js_mermaidjs -%}{%- endblock -%}
"""


def to_html(notebook: nbformat.NotebookNode, title: str) -> str:
    """The page. What cells printed is escaped; HTML that a cell displayed stands there as it is."""
    exporter = HTMLExporter(raw_template=_TEMPLATE)
    page, _ = exporter.from_notebook_node(notebook, resources={"metadata": {"name": title}})
    return page


def write_notebook(notebook: nbformat.NotebookNode, path: Path) -> None:
    """Write it as the ending of the file's name says: `.html`, or else in Jupyter's form.

    The whole file or the old one, whenever it is stopped.
    """
    content = to_html(notebook, path.stem) if path.suffix == ".html" else nbformat.writes(notebook)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(content, encoding="utf-8")
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
