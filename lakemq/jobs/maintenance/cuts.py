"""How far `retention` has cut each topic, or was about to: `verify` must not look for what is gone on purpose.

It is kept in the lake, so whoever verifies it knows, on whatever machine; a name and a number for each topic that
was ever cut.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from lakemq.jobs.maintenance.requests import FOLDER
from lakemq.objects.path import beside, is_object
from lakemq.storage.lake.object_files import files_of

_FILE = "cuts.json"


def read_cuts(lake: Path) -> dict[str, int]:
    """By topic, the store time (ms since 1970) below which rows may have been deleted. Raises `OSError`."""
    cuts = _read(lake / FOLDER / _FILE)
    return _later(cuts, _read(_older_place(lake))) if is_object(lake) else cuts


def remember_cuts(lake: Path, cuts: Mapping[str, int]) -> None:
    """Keep these too, over a power cut; a topic's later one holds. Before the first row goes."""
    file = lake / FOLDER / _FILE
    files = files_of(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    files.replace(file, [json.dumps(_later(read_cuts(lake), cuts)).encode()])
    files.sync_above(file)
    if is_object(lake):
        _older_place(lake).unlink(missing_ok=True)


def _older_place(lake: Path) -> Path:
    """Where an older lakemq kept those of a lake in a bucket."""
    return beside(lake) / FOLDER / _FILE


def _read(file: Path) -> dict[str, int]:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}


def _later(known: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    return {**known, **{name: max(cut, known.get(name, 0)) for name, cut in more.items()}}
