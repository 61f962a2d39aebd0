"""docs/settings.md has every setting, and each is described."""

from __future__ import annotations

import re

from tests.docs.documents import ROOT
from tests.docs.settings import page, sections, texts_of

AGAIN = "python -m tests.docs.settings writes it anew"


def test_the_page_is_made_of_the_settings() -> None:
    assert (ROOT / "docs/settings.md").read_text("utf-8") == page(), AGAIN


def test_every_setting_is_described_in_its_section_or_below_it() -> None:
    lacking = [
        f"{name}.{key}"
        for name, kind in sections()
        for said in [texts_of(kind).keys() | _named_in(kind)]
        for key in kind.model_fields
        if key not in said
    ]
    assert lacking == []


def _named_in(kind: type) -> set[str]:
    return set(re.findall(r"`([a-z_]+)", " ".join(each.__doc__ or "" for each in kind.__mro__)))
