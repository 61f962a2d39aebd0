"""The tables of bounds in the documents say what the settings are, and no document names a setting that there isn't."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lakemq.settings import GIB, KIB, MIB, Settings

ROOT = Path(__file__).parents[2]
PAGES = ("ARCHITECTURE", "groups", "routing", "fleet")
SETTING = re.compile(r"`([a-z]+)\.([a-z_]+)`")
NO_SETTINGS = {
    "spark.authenticate",
    "lake.certain_position",
    "lake.dropped",
    "lake.fault",
    "tls.crt",
    "tls.key",
    "nameserver.token",
}
"""Fields of `GET /v1/broker`, and files."""
UNITS = {
    "_ms": ((86_400_000, "days"), (3_600_000, "hours"), (1_000, "s")),
    "bytes": ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")),
    "characters": ((MIB, "Mi characters"), (KIB, "Ki characters")),
}


def rows() -> list[tuple[str, str]]:
    """The settings of each row as it names them, and its default."""
    found: list[tuple[str, str]] = []
    for page in PAGES:
        table = (ROOT / "docs" / f"{page}.md").read_text().partition("## Bounds\n")[2].partition("\n## ")[0]
        cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if "`" in line]
        found += [(row[1], row[2]) for row in cells if len(row) == 3 and SETTING.search(row[1])]
    return found


def shown(name: str, value: float) -> str:
    """A default as a page writes it: a size or a time in its largest unit, a count with commas."""
    units = next((units for part, units in UNITS.items() if part in name), ())
    for size, unit in units:
        if value >= size and value % (size / 2) == 0:
            return f"{value / size:g} {unit}"
    return f"{value:,}"


@pytest.mark.parametrize(("named", "default"), rows())
def test_a_bound_on_a_page_is_the_settings_default(named: str, default: str) -> None:
    settings = Settings()
    for section, key in SETTING.findall(named):
        value = getattr(getattr(settings, section), key)
        assert re.search(rf"(?<![\d,.]){re.escape(shown(key, value))}(?!,?\d)", default), f"{section}.{key}"


def test_each_page_has_its_table() -> None:
    assert len(rows()) >= 30


def test_documents_name_settings_that_there_are() -> None:
    sections = Settings()
    documents = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    for document in documents:
        for section, key in SETTING.findall(document.read_text()):
            part, name = getattr(sections, section, None), f"{section}.{key}"
            known = part is None or key in ("py", "md") or key in type(part).model_fields
            assert known or name in NO_SETTINGS, f"{name} in {document.name}"
