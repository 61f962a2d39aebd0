"""Which parts of sinks the files of a folder are, by their headers (docs/log_format.md, "Sinks")."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HEADER_BYTES_MAX = 8_192


def read_part_names(folder: Path) -> set[tuple[str, int, str]]:
    """`(sink, batch, part)` of each file; what has no sound header is none."""
    found: set[tuple[str, int, str]] = set()
    for path in folder.glob("*.part"):
        with path.open("rb") as file:
            line = file.readline(HEADER_BYTES_MAX)
        try:
            header: dict[str, Any] = json.loads(line.partition(b" ")[2])
            found.add((header["sink"], header["batch"], header["name"]))
        except (ValueError, KeyError, TypeError):
            continue
    return found
