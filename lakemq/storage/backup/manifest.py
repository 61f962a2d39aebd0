"""What a backup holds: `manifest.json`, written last. A folder without it is no backup."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path, PurePosixPath
from typing import Any

from lakemq.model.errors import LakemqError
from lakemq.storage.disk.files import Files

NAME = "manifest.json"
FORMAT = 1
BROKER = "broker"
"""The file that says whose log it is. The manifest can't: a lakemq of before takes no key that it doesn't know."""
LOG, PARTS, LAKE = "commitlog", "sinks", "lake"
"""The folders of a backup."""


RESTORING = LOG + ".restoring"
"""Where a restored log is until all of it is there: a gateway refuses to start beside it."""


class BadBackup(LakemqError):
    """The folder is no backup, or not as it was written; or what was restored of one is not all of it."""

    code = "bad_backup"
    lasting = True


def refuse_half_restored(files: Files, data_dir: Path) -> None:
    """Raises `BadBackup` where a restore has not come to its end: what is there would pass for a broker without
    messages."""
    if files.exists(data_dir / RESTORING):
        raise BadBackup(
            f"a restore to {data_dir} did not come to its end: empty that folder and its lake's, and restore again"
        )


@dataclass(frozen=True)
class Copied:
    """A file of the backup: its path in there, and what it must be."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Table:
    """A table of the lake as it was copied: its version, and how far that holds which broker's log."""

    name: str
    version: int
    held: dict[str, int]


@dataclass(frozen=True)
class Manifest:
    """A backup. The log has positions `first_position ≤ p < next_position`. `elsewhere`: the tables that hold some of
    it, where the lake is in another backup. `broker`: whose log it is, from a file of its own; empty in backups of
    before."""

    log_id: str
    first_position: int
    next_position: int
    begun_ms: int
    tables: list[Table] = field(default_factory=list[Table])
    files: list[Copied] = field(default_factory=list[Copied])
    elsewhere: list[str] = field(default_factory=list[str])
    broker: str = ""
    format: int = FORMAT

    def encode(self) -> bytes:
        """The content of its file, without `broker`."""
        content = asdict(self)
        del content["broker"]
        return json.dumps(content, indent=1).encode() + b"\n"


def read_manifest(folder: Path) -> Manifest:
    """The manifest of the backup in `folder`; raises `BadBackup`."""
    try:
        content: dict[str, Any] = json.loads((folder / NAME).read_bytes())
        if content["format"] != FORMAT:
            raise BadBackup(f"the backup in {folder} has format {content['format']}, this lakemq reads {FORMAT}")
        if unknown := sorted(content.keys() - {each.name for each in fields(Manifest)}):
            raise BadBackup(
                f"the backup in {folder} says {', '.join(unknown)}, as that of a newer lakemq: restore by one"
            )
        if (folder / BROKER).exists():
            content["broker"] = (folder / BROKER).read_text(encoding="utf-8").strip()
        tables = [Table(**each) for each in content.pop("tables")]
        files = [Copied(**each) for each in content.pop("files")]
        manifest = Manifest(**content, tables=tables, files=files)
    except FileNotFoundError:
        raise BadBackup(f"there is no backup in {folder}: it has no {NAME}") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadBackup(f"{folder / NAME} can't be read: {error}") from None
    for each in manifest.files:
        path = PurePosixPath(each.path)
        if path.is_absolute() or ".." in path.parts or path.parts[0] not in (LOG, PARTS, LAKE):
            raise BadBackup(f"{folder / NAME} names a file elsewhere: {each.path}")
    return manifest
