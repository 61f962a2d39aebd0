"""The folders of checkpoints of a lake's runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lakemq.jobs.lake import query

new_checkpoint: Callable[[Path, int], Path] = getattr(query, "_new_checkpoint")  # noqa: B009  pyright calls it private


def test_each_run_has_a_checkpoint_of_its_own_and_removes_none_of_a_later_driver(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    first = new_checkpoint(lake, 3)
    second = new_checkpoint(lake, 3)
    assert first != second
    assert not first.exists()
    later = new_checkpoint(lake, 4)
    assert not second.exists()
    earlier = new_checkpoint(lake, 3)
    assert later.exists()
    assert earlier.exists()
    assert list(earlier.iterdir()) == list(later.iterdir()) == []
