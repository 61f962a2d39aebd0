"""Each notebook runs, and shows what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import nbformat
import pytest

from lakemq.jobs.errors import NotebookFailed
from lakemq.jobs.notebook.html import to_html
from lakemq.jobs.notebook.to_jupyter import read_notebook
from tests.cli.shell import Run
from tests.notebooks.site import CELL_S_MAX, NOTEBOOKS, Site
from tests.standstill import StoodStill, first_of

LIMITS_S = (4, 16, 64)


def outputs(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def shown(notebook: nbformat.NotebookNode) -> str:
    """All that its cells have printed and displayed, as text, each run of blanks as one."""
    texts = [each.text if "text" in each else each.get("data", {}).get("text/plain", "") for each in outputs(notebook)]
    return re.sub(r"^ +", "", re.sub(r" +", " ", "\n".join(texts)), flags=re.MULTILINE)


def charts(notebook: nbformat.NotebookNode) -> int:
    return sum("image/png" in output.get("data", {}) for output in outputs(notebook))


def test_quick_start_by_the_command(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    written = tmp_path / "out.ipynb"
    where = ["--broker", site.broker_url, "--lake", str(site.settings.lake.dir), "--output", str(written)]
    done = Run(tmp_path, capsys, monkeypatch)("notebook", "run", str(NOTEBOOKS / "1_quick_start.py"), *where)
    assert (done.code, done.stdout) == (0, ""), done.stderr
    assert re.match(r"lakemq: a session of the jobs' Spark at sc://127\.0\.0\.1:\d+\nlakemq: cell 1 of ", done.stderr)
    notebook = nbformat.read(written, as_version=4)
    assert charts(notebook) == 1
    text = shown(notebook)
    assert "all received: True" in text
    assert "anna's orders, in order: [20.0, 310.0]" in text
    assert 'paid ["anna"] {"customer": "anna", "item": "desk", "amount": 310.0}' in text
    found = re.search(r"anna (\d+) (\d+)\nbert (\d+) ([\d.]+)\n", text)
    assert found is not None
    runs = int(found[3])  # another test has run the page on the same broker, or not yet
    assert (int(found[1]), int(found[2]), float(found[4])) == (2 * runs, 330 * runs, 75.5 * runs)
    assert re.search(r"message_id body\n-+ -+\n(broker-a\.[0-9a-f]{12}-\d+\.\d+ \{.*book.*\}\n)+\(\d rows?\)", text)


def test_exploring_history(site: Site) -> None:
    notebook = site.run(NOTEBOOKS / "2_exploring_history.py")
    bare = read_notebook(NOTEBOOKS / "2_exploring_history.py")
    assert [cell.source for cell in notebook.cells] == [cell.source for cell in bare.cells]
    text = shown(notebook)
    assert "10000 flights" in text
    assert "UA 1740 7.5 7\nB6 1719 8.3 1\n" in text
    assert "on one day: N730MQ" in text
    assert "1 1 605 MQ 4401 LGA DTW -3\n1 1 1115 MQ 4485 LGA CMH -8\n" in text
    assert re.search(r"live\.messages 10000 \d+\n", text)
    assert re.search(r"and in the newest: \[\d+, \d+\]", text)
    assert charts(notebook) == 2
    page = to_html(notebook, "history")
    assert page.count('src="data:image/png') == 2
    assert "<td" in page


def test_dead_letters(site: Site) -> None:
    notebook = site.run(NOTEBOOKS / "3_dead_letters.py")
    text = shown(notebook)
    assert "booked 7 of 12, 455.40 in total" in text
    assert re.search(r"%DLQ%bookkeeping invoices BE 3 ", text)
    assert text.count("ValueError could not convert string to float: '") == 5
    assert "match: 3\nredriven: 3 failed: 0\n" in text
    assert "booked 3 more, 17.69 in total" in text
    left = 'invoice-4 {"invoice": 4, "amount": "none"}\ninvoice-9 {"invoice": 9, "amount": "void"}\n(2 rows)'
    assert left in text
    assert charts(notebook) == 1


def test_transactions_and_delays(site: Site) -> None:
    notebook = site.run(NOTEBOOKS / "4_transactions_and_delays.py")
    text = shown(notebook)
    assert "later recalled 1\nlater waiting 1\nsoon delivered 20\n" in text
    assert "never early: True" in text
    assert "['commit', 'rollback', 'commit'] {'anna': 20.0}" in text
    assert len(re.findall(r"committed broker committed", text)) == 2
    assert len(re.findall(r"rollback producer rolled_back", text)) == 1
    assert re.search(r"30\.0 from anna \S+\n50\.0 from anna \S+\n\(2 rows\)", text)
    assert charts(notebook) == 1


def test_stream_query(site: Site) -> None:
    notebook = site.run(NOTEBOOKS / "5_stream_query.py")
    text = shown(notebook)
    assert "same counts in SQL: True\nall clicks: 500\n" in text
    assert len(re.findall(r"^(home|cart|help|search|account) \d+ 2$", text, re.MULTILINE)) == 5
    assert "few clicks: help" in text
    assert charts(notebook) == 1


def test_operating(site: Site) -> None:
    notebook = site.run(NOTEBOOKS / "6_operating.py")
    text = shown(notebook)
    assert re.search(r"operators work \d+\n", text)
    assert re.search(r"operators work \d+ \d{4}-", text)
    assert re.search(r"messages \d+ [\d.]+ ", text)
    assert "not in Delta yet: " in text
    assert charts(notebook) == 2


def test_a_plain_python_runs_one_too(site: Site, tmp_path: Path) -> None:
    """And another time on the same broker: nothing of the first is in its way."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LAKEMQ_")}
    environment |= {"LAKEMQ_BROKER": site.broker_url, "LAKEMQ_LAKE__DIR": str(site.settings.lake.dir)}
    command = [sys.executable, str(NOTEBOOKS / "1_quick_start.py")]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=CELL_S_MAX, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "all received: True\nanna's orders, in order: [20.0, 310.0]\n" in done.stdout
    assert re.search(r"^anna +\d+ +\d+$", done.stdout, re.MULTILINE)


def failed(site: Site, path: Path, limits_s: Sequence[int]) -> tuple[str, nbformat.NotebookNode, int]:
    """What is said of the second cell, the notebook, and the limit of a cell. On a machine that is slow enough the
    first one takes too long, too: then there is more time."""

    def failed_within(cell_s_max: int) -> tuple[str, nbformat.NotebookNode, int]:
        notebook = read_notebook(path)
        with pytest.raises(NotebookFailed) as raised:
            site.execute(notebook, path.parent, cell_s_max)
        said = str(raised.value)
        if "cell 1," in said:
            raise StoodStill(said)
        return said, notebook, cell_s_max

    return first_of(limits_s, failed_within)


@pytest.mark.parametrize(
    ("cell", "told"),
    [
        ("# MAGIC %sql\n# MAGIC SELECT '<b>' + no", r"cell 2, line 6: AnalysisException: .*`no`"),
        ("import time\ntime.sleep(1000)", "cell 2, line 6: it took more than LIMIT s"),
        ("import os\nos._exit(1)", "cell 2, line 6: its process ended"),
    ],
)
def test_a_cell_that_fails_is_named_and_what_came_before_it_stays(
    site: Site, tmp_path: Path, cell: str, told: str
) -> None:
    path = tmp_path / "failing.py"
    path.write_text(f"# Databricks notebook source\nprint('begun')\n\n# COMMAND ----------\n\n{cell}\n")
    said, notebook, limit_s = failed(site, path, LIMITS_S if "sleep" in cell else (CELL_S_MAX,))
    assert re.search(told.replace("LIMIT", str(limit_s)), said)
    assert shown(notebook).startswith("begun\n")
    assert len(notebook.cells) == 2
