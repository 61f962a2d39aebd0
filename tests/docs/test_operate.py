"""docs/operate.md says of each thing what `lakemq doctor` says."""

from __future__ import annotations

import re

from lakemq.cli.doctor.broker import ADVICE
from tests.docs.documents import ROOT


def test_the_page_has_all_advice() -> None:
    page = (ROOT / "docs/operate.md").read_text(encoding="utf-8")
    table = page.partition("## What a broker says of itself")[2]
    assert dict(re.findall(r"^\| `([^`]+)` \| (.+) \|$", table, re.MULTILINE)) == ADVICE
