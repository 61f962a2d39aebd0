"""The documentation as a site: `python -m tests.docs.site`, which is `make docs`, puts it into site/html."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.docs.documents import DOCUMENTS, ROOT

OF_SITE = ROOT / "docs/site"
SHIM = "https://unpkg.com/iframe-worker/shim"
"""What the theme would load to search pages opened as files."""
SEARCH = "iframe-worker.js"
"""Version 1.0.4 of it."""
DIAGRAMS = "mermaid.tiny.js"
"""Draws diagrams: scripts/docs-vendor.sh gets it. The theme loads it from a CDN unless the page already has it."""

_COLOURS = re.compile(r"\x1b\[[\d;]*m")


def build(folder: Path) -> Path:
    """Build the site; returns the folder of its pages. A link or an anchor that leads nowhere is an error."""
    pages = folder / "pages"
    shutil.rmtree(folder, ignore_errors=True)
    for document in DOCUMENTS:
        _copy(ROOT / document, pages / document)
    for picture in sorted((ROOT / "docs").rglob("*.png")):
        _copy(picture, pages / picture.relative_to(ROOT))
    for script in (SEARCH, DIAGRAMS):
        _copy(OF_SITE / script, pages / "docs/site" / script)
    _copy(OF_SITE / "zensical.toml", folder / "zensical.toml")
    done = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict"], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(_COLOURS.sub("", done.stdout + done.stderr))
    for page in sorted((folder / "html").rglob("*.html")):
        _without_network(page, folder / "html")
    return folder / "html"


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def _without_network(page: Path, top: Path) -> None:
    """Have the page load the scripts of the site, not those that the theme would load from a network."""
    own = "../" * (len(page.relative_to(top).parts) - 1) + "docs/site/"
    text = page.read_text("utf-8").replace(SHIM, own + SEARCH)
    if '<pre class="mermaid">' in text:
        text = text.replace("</body>", f'<script src="{own}{DIAGRAMS}"></script></body>')
    page.write_text(text, "utf-8")


def main() -> None:
    """Build it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, default=ROOT / "site", help="the folder to replace")
    print(f"docs: {build(parser.parse_args().into)}/index.html")  # noqa: T201


if __name__ == "__main__":
    main()
