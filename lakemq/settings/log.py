"""What lakemq's processes write to stderr."""

from __future__ import annotations

from typing import Literal

from pydantic import field_validator

from lakemq.settings.section import Section


class Log(Section):
    """The log of each process, which is on its stderr (docs/logs.md)."""

    format: Literal["line", "json"] = "line"
    """`json`: each line is an object of JSON, for programs that gather logs."""
    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """What matters less isn't written; `lakemq broker log-level` changes it while a broker runs."""

    @field_validator("level", mode="before")
    @classmethod
    def _level(cls, value: object) -> object:
        return value.upper() if isinstance(value, str) else value
