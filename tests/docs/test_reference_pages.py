"""The pages that are made of the code are what it says now; of docs/http.md test_route_errors.py knows."""

from __future__ import annotations

import re
from types import ModuleType

import pytest

from lakemq.contract import headers
from lakemq.gateway.decode import header_fields
from tests.docs import cli_page, client_page, tables_page
from tests.docs.column_texts import COLUMNS, OF_TABLES
from tests.docs.documents import ROOT

NO_HEADERS = {
    "lakemq-check",
    "lakemq-classes-",
    "lakemq-client",
    "lakemq-demo-",
    "lakemq-etcd",
    "lakemq-fleet-",
    "lakemq-topic-",
    "lakemq-gateway",
    "lakemq-jobs",
    "lakemq-lake-",
    "lakemq-log-",
    "lakemq-package-",
    "lakemq-shared-folder",
    "lakemq-upload-",
    "lakemq-warehouse",
}
"""Other names in the code that look like headers."""


@pytest.mark.parametrize("made", [cli_page, client_page, tables_page])
def test_a_page_is_what_the_code_says(made: ModuleType) -> None:
    assert made.FILE.read_text("utf-8") == made.page(), f"python -m {made.__name__} writes it anew"


def test_every_header_is_in_the_contract() -> None:
    named = {each.name.lower() for each in (*headers.REQUESTS, *headers.ANSWERS)}
    used = {
        found.lower()
        for path in (ROOT / "lakemq").rglob("*.py")
        for found in re.findall(r"[\"'](lakemq-[a-z-]+)[\"']", path.read_text("utf-8"), re.IGNORECASE)
    }
    assert used - NO_HEADERS - named == {"lakemq-property-"}
    assert {each.name.lower() for each in headers.OF_MESSAGES} == {*header_fields.ALL, "lakemq-property-…"}


def test_each_column_is_described_and_no_other() -> None:
    columns = {name: set(each) for name, each in tables_page.tables().items()}
    assert {name: set(own) - columns[name] for name, own in OF_TABLES.items() if set(own) - columns[name]} == {}
    everywhere = {each for name, own in columns.items() for each in own - set(OF_TABLES.get(name, {}))}
    assert everywhere == set(COLUMNS)
