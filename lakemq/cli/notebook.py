"""`lakemq notebook run | convert`."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from lakemq.cli.options import Broker, LakeDir, broker_url, check_folder, settings_of
from lakemq.cli.output import remark
from lakemq.model.errors import LakemqError

ENDINGS = (".html", ".ipynb")
NEEDED = ("nbclient", "nbconvert", "nbformat", "ipykernel", "pyspark")

app = typer.Typer(no_args_is_help=True, help="Run notebooks on the lake.")


File = Annotated[
    Path,
    typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="The notebook, in Databricks' source format."),
]


@app.command()
def run(
    context: typer.Context,
    file: File,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            metavar="FILE",
            help="File to write: a page (.html) or a notebook (.ipynb).",
            show_default="FILE.html",
        ),
    ] = None,
    cell_s_max: Annotated[int, typer.Option("--timeout", min=1, help="Time limit of a cell, in seconds.")] = 600,
    lake: LakeDir = None,
    broker: Broker = None,
) -> None:
    """Run a notebook, and write it with its outputs.

    `spark`, `display` and %sql work as on Databricks. The session is one of the running jobs or, if none run, a Spark
    of its own. If a cell fails, the output ends with its error.

    \b
    lakemq notebook run notebooks/1_quick_start.py --timeout 60
    lakemq notebook run notebooks/6_operating.py --output today.html --broker http://127.0.0.1:9000
    """
    written = _checked(output or Path(f"{file.stem}.html"))
    settings = settings_of(context, lake__dir=lake)
    url = broker_url(context, broker)
    _imported()
    from lakemq.jobs.notebook.execute import execute, has_begun
    from lakemq.jobs.notebook.html import write_notebook
    from lakemq.jobs.notebook.to_jupyter import read_notebook

    notebook = read_notebook(file)
    try:
        execute(notebook, settings, url, folder=file.parent, cell_s_max=cell_s_max, say=remark)
    finally:
        if has_begun(notebook):
            write_notebook(notebook, written)
            remark(f"wrote {written}")


@app.command()
def convert(
    file: File,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            metavar="FILE",
            help="File to write: a notebook (.ipynb) or a page (.html).",
            show_default="FILE.ipynb",
        ),
    ] = None,
) -> None:
    """Convert a notebook without running it.

    \b
    lakemq notebook convert notebooks/2_exploring_history.py
    lakemq notebook convert notebooks/2_exploring_history.py --output exploring.html
    """
    written = _checked(output or Path(f"{file.stem}.ipynb"))
    _imported()
    from lakemq.jobs.notebook.html import write_notebook
    from lakemq.jobs.notebook.to_jupyter import read_notebook

    write_notebook(read_notebook(file), written)
    remark(f"wrote {written}")


def _checked(path: Path) -> Path:
    if path.suffix not in ENDINGS:
        raise typer.BadParameter(f"{path.name!r} ends neither in .html nor in .ipynb", param_hint="--output")
    check_folder(path, "--output")
    return path


def _imported() -> None:
    """Says in one line what is lacking, instead of a stack of imports."""
    missing = next((name for name in NEEDED if find_spec(name) is None), None)
    if missing is not None:
        raise LakemqError(f"notebooks need the extra lakemq[notebooks]: there is no {missing}")
