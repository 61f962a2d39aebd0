"""The files that pages load: all of them in memory, under names that change with what is in them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "static"
_KINDS = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


class Asset(NamedTuple):
    """One file."""

    content: bytes
    media_type: str


class Assets:
    """All of them. `version` is another one as soon as any of them is."""

    def __init__(self, folder: Path = FOLDER) -> None:
        files = sorted(each for each in folder.rglob("*") if each.suffix in _KINDS)
        self._found = {
            each.relative_to(folder).as_posix(): Asset(each.read_bytes(), _KINDS[each.suffix]) for each in files
        }
        digest = hashlib.sha256()
        for name, asset in self._found.items():
            digest.update(f"{name} {len(asset.content)} ".encode())
            digest.update(asset.content)
        self.version = digest.hexdigest()[:12]

    def find(self, name: str) -> Asset | None:
        """The file of that name, such as `console.css`."""
        return self._found.get(name)
