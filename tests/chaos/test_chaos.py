"""The quick form of `make chaos`: each kind of fault once or so, and no promise is broken."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from lakemq.testing.history import Recorder
from tests.chaos.run import Run


@pytest.mark.timeout(600)
def test_mixed_load_under_mixed_faults_breaks_no_promise(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**31)
    print(f"again with: python -m tests.chaos --minutes 0.1 --seed {seed}")  # noqa: T201  shown when it fails
    with Recorder(tmp_path / "history.jsonl") as recorder:
        kinds = ("clock", "kill", "freeze", "descriptors")
        outcome = Run(tmp_path / "data", recorder, seed, kinds).run(0, faults_min=len(kinds))
    assert [str(finding) for finding in outcome.findings[:5]] == []
    assert outcome.counts["messages"]
