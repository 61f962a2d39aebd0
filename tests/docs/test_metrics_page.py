from __future__ import annotations

from tests.docs import metrics
from tests.docs.documents import ROOT


def test_the_page_is_what_is_made_of_the_metrics() -> None:
    assert (ROOT / metrics.FILE).read_text(encoding="utf-8") == metrics.page()
