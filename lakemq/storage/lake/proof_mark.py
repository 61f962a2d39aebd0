"""How far each table of a lake is on disk for certain: `{lake}/_lakemq/proved.json`, written whole or not at all.

Only what stands there is told to a broker, and only below that a broker's log may let go. The mark names an entry
of the table's log by its content: a table that was put back from a copy, or made anew, has none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from crc32c import crc32c

from lakemq.storage.disk.files import Files

FOLDER = "_lakemq"
"""The folder in the lake; Delta's readers pass over names like this."""
_NAME = "proved.json"
FAILED: dict[Path, int] = {}
"""By table: from which version on a sync of this process has failed, until `heal` has looked. The disk that refused may
refuse to have it written down too."""


@dataclass(frozen=True)
class Proved:
    """The table is on disk up to this version, whose entry has that checksum, and holds so much of whose log.

    `distrusted`: the first version that a failed sync may have taken pages of: what the page cache
    shows of it is not to be believed.
    """

    version: int
    checksum: int
    held: dict[str, int] = field(default_factory=dict[str, int])
    distrusted: int | None = None

    def stands(self, entry: Path | None) -> bool:
        """Whether that is the entry which was proved; not where there is none."""
        try:
            return entry is not None and checksum_of(entry) == self.checksum
        except FileNotFoundError:
            return False


def checksum_of(entry: Path) -> int:
    """Of the entry's text. Raises `OSError`."""
    return crc32c(entry.read_bytes())


def read_marks(lake: Path) -> dict[str, Proved]:
    """By table. What is torn is no mark: then everything has to be proved again. Raises `OSError`."""
    try:
        content: Any = json.loads((lake / FOLDER / _NAME).read_bytes())
        fields: dict[str, dict[str, Any]] = content["tables"]
        return {name: Proved(**each) for name, each in fields.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def write_marks(lake: Path, marks: Mapping[str, Proved], files: Files) -> None:
    """Replace all marks; on disk on return. Raises `OSError`."""
    folder = lake / FOLDER
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        pass
    else:
        files.sync_dir(lake)
    content = json.dumps({"tables": {name: asdict(mark) for name, mark in sorted(marks.items())}}, indent=1)
    files.replace(folder / _NAME, [content.encode()])
