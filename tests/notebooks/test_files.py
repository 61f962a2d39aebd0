"""The notebooks' files, as Databricks, Jupyter and Python read them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import jupytext
import nbformat
import pytest

from lakemq.jobs.notebook.source import SEPARATOR, Kind, parse
from lakemq.jobs.notebook.to_jupyter import read_notebook
from tests.cli.shell import Run

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.py"))


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request: pytest.FixtureRequest) -> Path:
    return request.param


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(tmp_path, capsys, monkeypatch)


def program(parts: list[str]) -> str:
    """What Python makes of it: comments and blank lines are nothing."""
    return ast.unparse(ast.parse("\n".join(parts)))


def test_there_are_six() -> None:
    assert [path.name[0] for path in NOTEBOOKS] == list("123456")


def test_it_begins_with_a_title_and_tells_which_is_next(notebook: Path) -> None:
    first, *_, last = parse(notebook.read_text())
    assert first.source.startswith(f"# {notebook.name[0]} · ")
    follows = re.search(r"\]\((.*\.py)\)", last.source)
    assert (follows.group(1) if follows else NOTEBOOKS[-1].name) in {path.name for path in NOTEBOOKS}


def test_as_plain_python_it_is_the_same_program(notebook: Path) -> None:
    cells = [cell.source for cell in parse(notebook.read_text()) if cell.kind is Kind.PYTHON]
    assert program(cells) == program([notebook.read_text()])


def test_jupytext_opens_it_as_the_same_program_with_its_texts(notebook: Path) -> None:
    opened = jupytext.read(notebook)
    nbformat.validate(opened)
    code = [cell.source for cell in opened.cells if cell.cell_type == "code"]
    assert program(code) == program([notebook.read_text()])
    texts = [cell.source for cell in opened.cells if cell.cell_type == "markdown"]
    assert sum(SEPARATOR.removeprefix("# ") in text for text in texts) == notebook.read_text().count(SEPARATOR)
    assert jupytext.writes(opened, fmt="py:light").split() == notebook.read_text().split()


def test_convert_writes_what_jupyter_opens(run: Run, tmp_path: Path) -> None:
    written = tmp_path / "n.ipynb"
    done = run("notebook", "convert", str(NOTEBOOKS[1]), "--output", str(written))
    assert (done.code, done.stdout) == (0, "")
    opened = nbformat.read(written, as_version=4)
    nbformat.validate(opened)
    assert opened.cells == read_notebook(NOTEBOOKS[1]).cells
    page = tmp_path / "n.html"
    assert run("notebook", "convert", str(NOTEBOOKS[1]), "--output", str(page)).code == 0
    assert "<h1" in page.read_text()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_mistakes_are_told_in_one_line(run: Run, tmp_path: Path) -> None:
    other = tmp_path / "other.py"
    other.write_text("print(1)\n")
    for arguments, code, word in (
        (["run", str(other), "--output", str(tmp_path / "o.html")], 1, "line 1"),
        (["run", str(NOTEBOOKS[0]), "--output", "o.pdf"], 2, "neither in .html nor in .ipynb"),
        (["convert", str(tmp_path / "none.py")], 2, "none.py"),
        (["run", str(NOTEBOOKS[0]), "--output", str(tmp_path / "o.html"), "--lake", str(tmp_path)], 1, "no lake in"),
    ):
        done = run("notebook", *arguments)
        assert (done.code, done.stderr.count("\n")) == (code, 1), done.stderr
        assert word in done.stderr
    assert not (tmp_path / "o.html").exists()
