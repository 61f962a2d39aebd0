"""The documentation as a site: `python -m tests.docs.site`, which is `make docs`, puts it into site/html.

`--version 1.2.0` (`make docs VERSION=1.2.0`) puts it beside those of other versions instead: into site/versions/1.2.0.
The folder site/versions is to be served as a whole: readers choose a version there, and it leads to the newest.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
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
_NUMBER = re.compile(r"\d+(\.\d+)*")
_CHOICE = """
[project.extra.version]
provider = "mike" # the theme reads versions.json in the folder above
"""
_NEWEST = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>lakemq</title>
<meta http-equiv="refresh" content="0; url={0}/index.html"></head>
<body><a href="{0}/index.html">lakemq {0}</a></body></html>
"""


def build_version(folder: Path, version: str) -> Path:
    """Build the site of a version beside those that `folder` has; returns the folder of its pages."""
    if not _NUMBER.fullmatch(version):
        raise SystemExit(f"{version!r} is no version, such as 1.2.0")
    built = build(folder / "build", with_choice=True)
    shutil.rmtree(folder / version, ignore_errors=True)
    built.rename(folder / version)
    shutil.rmtree(folder / "build")
    there = [each.name for each in folder.iterdir() if each.is_dir() and _NUMBER.fullmatch(each.name)]
    there.sort(key=lambda each: [int(part) for part in each.split(".")], reverse=True)
    known = [{"version": each, "title": each, "aliases": []} for each in there]
    known[0]["aliases"] = ["latest"]
    (folder / "versions.json").write_text(json.dumps(known, indent=2) + "\n", "utf-8")
    (folder / "index.html").write_text(_NEWEST.format(there[0]), "utf-8")
    return folder / version


def build(folder: Path, with_choice: bool = False) -> Path:
    """Build the site; returns the folder of its pages. A link or an anchor that leads nowhere is an error.
    `with_choice`: readers can choose another version, where the folder above has `versions.json`."""
    pages = folder / "pages"
    for each in (pages, folder / "html"):
        shutil.rmtree(each, ignore_errors=True)
    for document in DOCUMENTS:
        _copy(ROOT / document, pages / document)
    for picture in sorted((ROOT / "docs").rglob("*.png")):
        _copy(picture, pages / picture.relative_to(ROOT))
    for script in (SEARCH, DIAGRAMS):
        _copy(OF_SITE / script, pages / "docs/site" / script)
    config = (OF_SITE / "zensical.toml").read_text("utf-8")
    (folder / "zensical.toml").write_text(config + _CHOICE * with_choice, "utf-8")
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


def main(arguments: Sequence[str] | None = None) -> None:
    """Build it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, default=ROOT / "site", help="the folder that has it")
    parser.add_argument("--version", default="", help="put it beside the sites of other versions")
    given = parser.parse_args(arguments)
    built = build_version(given.into / "versions", given.version) if given.version else build(given.into)
    print(f"docs: {built}/index.html")  # noqa: T201


if __name__ == "__main__":
    main()
