"""What lakemq's processes write to stderr."""

from __future__ import annotations

from typing import Literal

from pydantic import field_validator

from lakemq.settings.section import Section


class Log(Section):
    """What each process logs, to stderr (docs/logs.md)."""

    format: Literal["line", "json"] = "line"
    """`json`: each line is a JSON object, for programs that collect logs."""
    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """The lowest level that is logged; `lakemq broker log-level` changes it while a broker runs."""

    @field_validator("level", mode="before")
    @classmethod
    def _level(cls, value: object) -> object:
        return value.upper() if isinstance(value, str) else value
