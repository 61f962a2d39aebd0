"""The files that lakemqs of before wrote, and what they had said of them."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any, NamedTuple

CORPUS = Path(__file__).parent / "corpus"
SAID = "said.json"
NAMES = sorted(path.name.removesuffix(".tar.xz") for path in CORPUS.glob("*.tar.xz"))


class Older(NamedTuple):
    """A broker's folder and its lake, and what was answered when they were written (`fill.py`)."""

    log: Path
    lake: Path
    said: dict[str, Any]


def unpack(name: str, folder: Path) -> Older:
    """A copy to work on."""
    with tarfile.open(CORPUS / f"{name}.tar.xz") as tar:
        tar.extractall(folder, filter="data")
    return Older(folder / "log", folder / "lake", json.loads((folder / SAID).read_text()))
