"""The files of a Delta table with all that its log says of each, followed entry by entry without listing the log.

Delta's readers give a file's statistics, but not its tags, and look through the whole folder of the log to find
out what is new. Here the last checkpoint is read once, and then just the entries after it.
"""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from lakemq.objects.path import opened
from lakemq.storage.lake.delta_log import TornEntry, entry_of, files_of_log

Action = dict[str, Any]

_OF_ADD = ("path", "partitionValues", "size", "modificationTime", "tags", "stats", "deletionVector")
_OF_CHECKPOINT = [*(f"add.{name}" for name in _OF_ADD), "metaData.schemaString", "metaData.id"]


class LiveFiles:
    """What the table in a folder consists of, as of `version`. Only while nobody puts the table back, or makes it anew:
    who can't rule that out asks `is_another`. Not for several threads at once."""

    def __init__(self, table: Path) -> None:
        """Raises `FileNotFoundError` where there is no table, `TornEntry`, `OSError`."""
        self.table = table
        self.version = -1
        self.added: dict[str, Action] = {}
        """By its path as the log has it: `add`, the action."""
        self.columns: list[str] = []
        """The table's columns in their order."""
        self.table_id = ""
        """Delta's, which another table in the same folder doesn't have."""
        self._last: bytes | None = None
        self._begin()

    def catch_up(self) -> bool:
        """Reads the entries that came since; whether there were some. Raises `TornEntry`, `OSError`."""
        before = self.version
        while True:
            entry = entry_of(self.table, self.version + 1)
            try:
                data = entry.read_bytes()
            except FileNotFoundError:
                return self.version > before
            self._apply(entry, data)

    def is_another(self) -> bool:
        """Whether the folder holds another table than was read, or none: the entry of `version` isn't what it was.
        Raises `OSError`."""
        return self._digest_now() != self._last

    def _digest_now(self) -> bytes | None:
        """Of the entry of `version`, which says when it was made and by what; None: it isn't there."""
        try:
            return sha256(entry_of(self.table, self.version).read_bytes()).digest()
        except FileNotFoundError:
            return None

    def _begin(self) -> None:
        entries, beside = files_of_log(self.table)
        if not entries:
            raise FileNotFoundError(f"there is no table in {self.table}")
        checkpoints = {each.version: each.path for each in beside if each.is_checkpoint}
        start = max(checkpoints, default=-1)
        if start >= 0:
            self._apply_checkpoint(checkpoints[start])
        self.version = start
        self._last = self._digest_now()
        self.catch_up()
        if not self.columns:
            raise TornEntry(f"the log of {self.table} doesn't say what columns it has")

    def _apply(self, entry: Path, data: bytes) -> None:
        try:
            actions: list[Action] = [json.loads(line) for line in data.splitlines()]
            for action in actions:
                if "add" in action:
                    self.added[action["add"]["path"]] = action["add"]
                elif "remove" in action:
                    self.added.pop(action["remove"]["path"], None)
                elif "metaData" in action:
                    self._describe(action["metaData"])
        except (ValueError, KeyError, TypeError) as error:
            raise TornEntry(f"{entry.name} is torn: {error}") from None
        self.version, self._last = self.version + 1, sha256(data).digest()

    def _apply_checkpoint(self, path: Path) -> None:
        with pq.ParquetFile(opened(path)) as file:
            rows = file.read(columns=_OF_CHECKPOINT, use_threads=False).to_pylist()
        for row in rows:
            add, metadata = row.get("add"), row.get("metaData")
            if add is not None:
                maps = {name: dict(add.get(name) or ()) for name in ("partitionValues", "tags")}
                self.added[add["path"]] = {name: each for name, each in add.items() if each is not None} | maps
            if metadata is not None:
                self._describe(metadata)

    def _describe(self, metadata: Action) -> None:
        self.columns = [field["name"] for field in json.loads(metadata["schemaString"])["fields"]]
        self.table_id = metadata["id"]
