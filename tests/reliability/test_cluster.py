"""The quick form of `python -m tests.reliability.cluster`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jobs.lake.test_lake_kill import ROUNDS_QUICK
from tests.reliability.cluster import EXECUTOR, run


@pytest.mark.timeout(1200)
def test_an_executor_that_dies_on_a_cluster_leaves_each_message_once_in_the_lake(tmp_path: Path) -> None:
    done = run(tmp_path, [EXECUTOR], seed=5, names=["lake"], rounds=ROUNDS_QUICK)
    assert done.findings == []
    assert done.messages > 0
