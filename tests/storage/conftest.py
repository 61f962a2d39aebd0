"""Fixtures of the storage tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from tests.storage.harness import LogHarness


class MakeLog(Protocol):
    """Opens the test's log, with these settings."""

    def __call__(self, **settings: object) -> LogHarness: ...


@pytest.fixture
def make_log(tmp_path: Path) -> Iterator[MakeLog]:
    """Opens logs in the test's directory; what is open at the end is dropped without a write."""
    made: list[LogHarness] = []

    def make(**settings: object) -> LogHarness:
        harness = LogHarness(tmp_path, **settings)
        made.append(harness)
        return harness.open()

    yield make
    for harness in made:
        if harness.is_open:
            harness.crash()


@pytest.fixture
def harness(make_log: MakeLog) -> LogHarness:
    """An open log with topic `a` of four queues, which rolls at 1 MiB and never flushes by itself."""
    made = make_log()
    made.put_topic("a")
    return made
