"""What brokers and jobs share: where the lake is, and what Spark the jobs run on.

Each is one place: what starts beside the fleet for it, and which settings its brokers and jobs have by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

Section = Mapping[str, str | int | bool]
"""Settings by their names."""


class Lake:
    """A folder."""

    says = "a folder"

    def __init__(self, root: Path) -> None:
        self.place = root / "lake"

    @property
    def settings(self) -> Section:
        """Of the section `lake`, for brokers and jobs."""
        return {"dir": str(self.place)}

    def start(self) -> None:
        """Nothing has to run for it."""

    def stop(self) -> None:
        """Nothing has to."""


class Spark:
    """One that the jobs have in their own process."""

    says = "in the jobs' own process"
    settings: ClassVar[Section] = {}
    """Of the section `spark`, for the jobs."""

    def start(self) -> None:
        """Nothing has to run for it."""

    def stop(self) -> None:
        """Nothing has to."""
