"""The table of bounds in docs/ARCHITECTURE.md says what the settings are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lakemq.settings import GIB, KIB, MIB, Settings

PAGE = Path(__file__).parents[2] / "docs/ARCHITECTURE.md"
SETTING = re.compile(r"`([a-z]+)\.([a-z_]+)`")


def rows() -> list[tuple[str, str]]:
    """The settings of each row as it names them, and its default."""
    table = PAGE.read_text().partition("## Bounds\n")[2].partition("\n## ")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if "`" in line]
    return [(row[1], row[2]) for row in cells if SETTING.search(row[1])]


def shown(name: str, value: float) -> str:
    """A default as the page writes it: a size in its largest unit, a time in seconds, a count with commas."""
    if name.endswith("_ms_max"):
        return f"{value / 1000:g} s"
    if "bytes" not in name:
        return f"{value:,}"
    unit, size = next(
        ((unit, size) for unit, size in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)) if value >= size), ("", 1)
    )
    return f"{value / size:g} {unit}"


@pytest.mark.parametrize(("named", "default"), rows())
def test_a_bound_on_the_page_is_the_settings_default(named: str, default: str) -> None:
    settings = Settings()
    for section, key in SETTING.findall(named):
        value = getattr(getattr(settings, section), key)
        assert re.search(rf"(?<![\d,.]){re.escape(shown(key, value))}(?!,?\d)", default), f"{section}.{key}"


def test_the_page_has_its_table() -> None:
    assert len(rows()) >= 12
