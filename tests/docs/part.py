"""A part of a document that is made of the code: it stands between two comments."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Part(NamedTuple):
    """Where it is."""

    file: Path
    begin: str
    end: str

    def written(self) -> str:
        """What stands there."""
        return self.file.read_text("utf-8").partition(self.begin)[2].partition(self.end)[0].strip()

    def write(self, text: str) -> None:
        """Put this there."""
        before, _, rest = self.file.read_text("utf-8").partition(self.begin)
        self.file.write_text(f"{before}{self.begin}\n{text}\n{self.end}{rest.partition(self.end)[2]}", "utf-8")
