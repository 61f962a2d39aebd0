"""What the tests of the checker share."""

from __future__ import annotations

import pytest

from tests.history.written import Run


@pytest.fixture
def run() -> Run:
    return Run()
