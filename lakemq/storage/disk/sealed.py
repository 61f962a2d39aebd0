"""Small files that hold one JSON object and a checksum of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from crc32c import crc32c

from lakemq.storage.disk.files import Files


def write_sealed(files: Files, path: Path, value: dict[str, Any]) -> None:
    """Have the file hold it; on disk on return. Raises `OSError`: then it holds this, or what it held before."""
    files.replace(path, [_seal(value)])


def leave_sealed(files: Files, path: Path, value: dict[str, Any]) -> None:
    """`write_sealed`, but a power cut may take it, or leave a file that can't be read. Raises `OSError`."""
    files.replace(path, [_seal(value)], durable=False)


def read_sealed(files: Files, path: Path) -> dict[str, Any] | None:
    """What the file holds; None: there is none. Raises `OSError`, and `ValueError` for a file that isn't sound."""
    try:
        text, _, checksum = files.read_whole(path).partition(b"\n")
    except FileNotFoundError:
        return None
    if checksum.strip() != b"%d" % crc32c(text):
        raise ValueError(f"the checksum of {path} is wrong")
    return json.loads(text)


def _seal(value: dict[str, Any]) -> bytes:
    text = json.dumps(value).encode()
    return b"%b\n%d\n" % (text, crc32c(text))
