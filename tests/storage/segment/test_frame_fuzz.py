"""Mutated frames: the quick form of `python -m tests.storage.frame_fuzz`."""

from __future__ import annotations

from tests.storage.frame_fuzz import rounds


def test_mutated_frames_are_what_was_written_or_refused_and_nothing_else() -> None:
    with rounds(seed=1) as do_round:
        accepted = sum(do_round(number) for number in range(2_000))
    assert accepted > 0
