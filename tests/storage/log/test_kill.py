"""kill -9 at any time loses nothing that was acknowledged, and stores nothing twice."""

from __future__ import annotations

import random
from pathlib import Path

from tests.storage.kill_run import run


def test_acknowledged_messages_survive_kills_once_and_in_place(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"again with: python -m tests.storage.kill_run --seed {seed}")  # noqa: T201  pytest shows it on failure
    done = run(tmp_path, seconds=0, seed=seed, rounds_min=2)
    assert len(done.ledger.promised) > 0
