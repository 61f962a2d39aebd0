"""A test begins again where the machine stood still, and only then."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from tests import standstill
from tests.standstill import TRIES, Standstill, StoodStill, begins_again_after, first_of, within


def test_a_standstill_of_this_process_is_seen_to_its_end() -> None:
    interval_s = sys.getswitchinterval()
    with Standstill() as still:
        sys.setswitchinterval(60.0)
        try:
            end_s = time.monotonic() + 0.4
            while time.monotonic() < end_s:  # no other thread has its turn
                pass
        finally:
            sys.setswitchinterval(interval_s)
    assert still.longest_s > 0.3


@pytest.mark.parametrize(("stood_still_s", "times"), [(1.9, 1), (2.0, TRIES)])
def test_what_fails_begins_again_after_a_standstill_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stood_still_s: float, times: int
) -> None:
    class Still(Standstill):
        def _run(self) -> None:
            self.longest_s = stood_still_s

    folders: list[Path] = []

    @begins_again_after(2.0)
    def fails(tmp_path: Path) -> None:
        assert not list(tmp_path.iterdir())
        (tmp_path / "left").touch()
        folders.append(tmp_path)
        raise AssertionError("it fails")

    monkeypatch.setattr(standstill, "Standstill", Still)
    with pytest.raises(AssertionError, match="it fails"):
        fails(tmp_path=tmp_path)
    assert len(set(folders)) == len(folders) == times


def test_what_an_attempt_returns_counts_unless_it_was_spoiled() -> None:
    made: list[int] = []

    def attempt(number: int) -> int:
        made.append(number)
        if number < 2:
            raise StoodStill(f"{number}")
        return number

    assert first_of(range(9), attempt) == 2
    assert made == [0, 1, 2]
    with pytest.raises(AssertionError, match=r"\['0', '1'\]"):
        first_of(range(2), attempt)
    with pytest.raises(AssertionError, match="a look takes"):
        within(0.0, lambda: 1)
    assert within(60.0, lambda: 1) == 1
