"""docs/traces.md has every span."""

from __future__ import annotations

from lakemq.contract.spans import OPERATIONS
from tests.docs.documents import ROOT


def test_the_page_lists_the_operations_with_their_kinds() -> None:
    rows = [line for line in (ROOT / "docs/traces.md").read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    for operation in OPERATIONS:
        (row,) = (row for row in rows if f"`{operation.span_name('TOPIC')}`" in row)
        assert row.split("|")[2].strip() == operation.kind
