"""Consumers of two groups that join, leave and are killed at random: the quick form of `benchmarks.churn`."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from benchmarks.churn import run


def test_nothing_is_lost_and_order_is_kept_while_members_join_leave_and_are_killed(tmp_path: Path) -> None:
    chosen = Namespace(
        consumers=12, workers=2, queues=6, keys=12, rate=100, seconds=5, mean_s=1.0, kill_every_s=2.0, expiry_s=1.5
    )
    chosen.lock_s = 8.0  # a minute by default, and so long would be waited where an orderly member was killed
    chosen.seed = 7
    found = run(tmp_path, chosen)
    for group, counts in found.items():
        assert counts["lost"] == 0, group
        causes = sum(count for name, count in counts.items() if name.startswith("duplicates_"))
        assert counts["duplicates"] == causes, "each has its cause"
    assert found["orderly"]["out_of_order"] == 0
