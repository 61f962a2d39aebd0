"""`python -m tests.notebooks.gallery`: runs all notebooks, and takes the pictures of docs/notebooks.md from them."""

from __future__ import annotations

import argparse
import base64
import io
import sys
import tempfile
from pathlib import Path

import nbformat
from PIL import Image

from lakemq.jobs.session.session import start_session
from lakemq.settings import Lake, Settings, Sql
from tests.notebooks.site import NOTEBOOKS, open_site

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
CELL_S_MAX = 600
COLOURS = 64
"""Charts have few, and a picture with a palette is a third as large."""


def first_chart(notebook: nbformat.NotebookNode) -> bytes:
    """The first chart that its cells show, as PNG."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return next(base64.b64decode(each["data"]["image/png"]) for each in outputs if "image/png" in each.get("data", {}))


def save(chart: bytes, file: Path) -> None:
    """The chart as a small file."""
    with Image.open(io.BytesIO(chart)) as image:
        image.convert("RGB").quantize(COLOURS).save(file, optimize=True)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="default docs/notebooks")
    parser.add_argument("names", nargs="*", help="only of notebooks whose names begin so")
    given = parser.parse_args()
    to, names = given.folder, tuple(given.names or [""])
    to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        lake = Path(folder) / "lake"
        lake.mkdir()
        spark = start_session(
            Settings(lake=Lake(dir=lake), sql=Sql(port=0)), "lakemq gallery", short_lived=True, server=True
        )
        try:
            with open_site(spark, lake, Path(folder) / "log") as site:
                for path in sorted(each for each in NOTEBOOKS.glob("*.py") if each.name.startswith(names)):
                    sys.stdout.write(f"{path.name}\n")
                    save(first_chart(site.run(path, CELL_S_MAX)), to / f"{path.stem}.png")
        finally:
            spark.stop()


if __name__ == "__main__":
    main()
