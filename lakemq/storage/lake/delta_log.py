"""A Delta table's own log as files on a local disk: what each entry adds and says, and what stands beside.

Delta writes an entry to another name and renames it; nothing is synced. So a power cut can leave an entry that
is lacking, empty, torn or full of zeros, whatever comes after it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from lakemq.objects.path import is_object

APPLICATION = "lakemq-lake-"
"""A table's transaction identifier of this and a broker's name is the position up to which the table
holds the broker's log (docs/lake.md)."""

OF_LOG = "lakemq-log-"
"""Begins the identifiers that say which log that is (`log_marks`)."""

OF_TOPIC = "lakemq-topic-"
"""Begins those of a topic's own table: up to which position it holds each broker's messages of the topic. They come
from `messages`, so no log needs to have them still."""

OURS = (APPLICATION, OF_LOG, OF_TOPIC)

FOLDER = "_delta_log"
LAST_CHECKPOINT = "_last_checkpoint"
_NUMBERED = re.compile(r"\.?(\d{20})\.(.+)")
_ENTRY = "json"
_CHECKPOINT = "checkpoint.parquet"
_APPENDS = "STREAMING UPDATE"
"""Delta's name of what the lake query does: such an entry ends with the progress that it makes."""


SUMS_KEPT = 1_000
"""Checksums of so many last versions stay: far more than a start has to read."""


class TornEntry(ValueError):
    """An entry isn't as it was written."""


class Added(NamedTuple):
    """A data file that an entry adds, and its bytes."""

    path: Path
    size: int


class Entry(NamedTuple):
    """One version of a table: the files that it adds and removes, and what it says of how far the table holds
    whose log."""

    version: int
    added: list[Added]
    removed: set[Path]
    held: dict[str, int]


class Beside(NamedTuple):
    """A file of the log that is no entry: a checkpoint, a checksum; of that version, or up to it."""

    version: int
    path: Path

    @property
    def is_checkpoint(self) -> bool:
        """Whether readers take it instead of the entries up to its version."""
        return ".checkpoint." in self.path.name and self.path.suffix == ".parquet" and self.path.name[0] != "."


def entries_of(table: Path) -> dict[int, Path]:
    """The entries that are there, by version; none of what is no table."""
    return files_of_log(table)[0]


def beside_entries(table: Path) -> list[Beside]:
    """All other files that bear a version, sidecars of checksums too, ascending."""
    return files_of_log(table)[1]


def files_of_log(table: Path) -> tuple[dict[int, Path], list[Beside]]:
    """Both at once."""
    return by_version(all_of_log(table))


def all_of_log(table: Path) -> list[Path]:
    """All files that are there, whatever their names. It lists the folder: a day's commits are 20,000 files, so not for
    what is done with each."""
    folder = table / FOLDER
    if not folder.is_dir():
        return []
    if is_object(folder):
        return list(folder.iterdir())
    with os.scandir(folder) as listed:  # which knows without a look at each what is a file
        return [folder / each.name for each in listed if each.is_file()]


def by_version(files: Iterable[Path]) -> tuple[dict[int, Path], list[Beside]]:
    """Of these the entries, by version, and all others that bear one, ascending."""
    entries: dict[int, Path] = {}
    others: list[Beside] = []
    for path in files:
        match = _NUMBERED.fullmatch(path.name)
        if match is None:
            continue
        if match[2] == _ENTRY and path.name[0] != ".":
            entries[int(match[1])] = path
        else:
            others.append(Beside(int(match[1]), path))
    return dict(sorted(entries.items())), sorted(others)


def entry_of(table: Path, version: int) -> Path:
    """The entry of that version, there or not."""
    return table / FOLDER / f"{version:020}.{_ENTRY}"


def beside_entry(table: Path, version: int) -> list[Path]:
    """What may stand beside the entry of that version, there or not, without sidecars."""
    return [table / FOLDER / f"{version:020}.{kind}" for kind in ("crc", _CHECKPOINT)]


def drop_old_sums(files: Iterable[Path], keep: int = SUMS_KEPT) -> int:
    """Of a log's files, removes what stands beside the entries of all versions but the last `keep`, except for
    checkpoints: three files of four, and the entries say it all without. How many there were. Of what is proved nobody
    asks them."""
    entries, beside = by_version(files)
    last = max(entries, default=-1)
    old = [each.path for each in beside if each.version <= last - keep and ".checkpoint." not in each.path.name]
    for path in old:
        path.unlink(missing_ok=True)
    return len(old)


def half_written(files: Iterable[Path]) -> list[Path]:
    """Of a log's files, those that stand beside an entry or a checkpoint while it is written, with their checksums. One
    that is old is left of a crash: no reader looks at it, and Delta never removes it."""
    return [each for each in files if each.name.startswith(".") and each.name.endswith((".tmp", ".tmp.crc"))]


def last_checkpoint(table: Path) -> Path | None:
    """The checkpoint that the log names as its last; None: it names none that is there."""
    try:
        version: int = json.loads((table / FOLDER / LAST_CHECKPOINT).read_bytes())["version"]
        path = table / FOLDER / f"{version:020}.{_CHECKPOINT}"
        return path if path.exists() else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def is_progress(identifier: str) -> bool:
    """Whether a transaction identifier is how far a table holds a broker's log."""
    return identifier.startswith(APPLICATION)


def is_table(folder: Path) -> bool:
    """Whether there is a log of a table, in whatever state."""
    return (folder / FOLDER).is_dir()


def is_made(folder: Path) -> bool:
    """Whether there is a table: its first commit is there, or was before its log was cut. One that is being made has a
    log without, and a kill leaves it so."""
    return is_table(folder) and _has_commit(folder)


def _has_commit(folder: Path) -> bool:
    if entry_of(folder, 0).exists() or (folder / FOLDER / LAST_CHECKPOINT).exists():
        return True
    entries, beside = files_of_log(folder)
    return bool(entries) or any(each.is_checkpoint for each in beside)


def tables_of(lake: Path) -> list[Path]:
    """The folders of a lake's tables, by name."""
    return sorted(path for path in lake.iterdir() if is_table(path)) if lake.is_dir() else []


def made_tables_of(lake: Path) -> list[Path]:
    """Those of them that are made."""
    return [path for path in tables_of(lake) if _has_commit(path)]


def read_entry(table: Path, version: int, path: Path) -> Entry:
    """An entry, as far as it stands in its own text. Raises `TornEntry`, `OSError`."""
    added: list[Added] = []
    removed: set[Path] = set()
    held: dict[str, int] = {}
    operation = None
    try:
        actions: list[dict[str, Any]] = [json.loads(line) for line in path.read_bytes().splitlines()]
        for action in actions:
            if "add" in action:
                added.append(Added(table / unquote(action["add"]["path"]), int(action["add"]["size"])))
            elif "remove" in action:
                removed.add(table / unquote(action["remove"]["path"]))
            elif "txn" in action and action["txn"]["appId"].startswith(OURS):
                held[action["txn"]["appId"]] = int(action["txn"]["version"])
            elif "commitInfo" in action:
                operation = action["commitInfo"].get("operation")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TornEntry(f"{path.name} is torn: {error}") from None
    if not actions or (operation == _APPENDS and not held):
        raise TornEntry(f"{path.name} is torn: it ends before its progress")
    return Entry(version, added, removed, held)
