"""Truncations and bit flips of a log of 64 KiB: some of what `python -m tests.storage.damage` does in full."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.storage.damage import CASES, LOG_BYTES, Damaged, run

SAMPLES = 120


@pytest.mark.parametrize("is_flushed", [True, False])
def test_no_truncation_and_no_flipped_bit_is_served_for_what_was_written(tmp_path: Path, is_flushed: bool) -> None:
    damaged = Damaged(tmp_path, is_flushed)
    size = len(damaged.content)
    assert size == LOG_BYTES == 64 * 1024
    chance = random.Random(5)
    for _ in range(SAMPLES):
        damaged.truncate(chance.randrange(size))
        damaged.flip(chance.randrange(size * 8))
    damaged.truncate(size)


def test_cases_are_all_truncations_and_all_flips() -> None:
    assert CASES == 65_536 + 524_288
    assert run(CASES - 2, seconds=60) == ({"flips": 2}, [])
    assert run(LOG_BYTES - 1, seconds=0) == ({"truncations": 1}, [])
