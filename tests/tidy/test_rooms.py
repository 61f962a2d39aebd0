"""Tests stand in the room of what they test."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("house", ["gateway", "jobs", "storage"])
def test_each_test_of_a_house_stands_in_one_of_its_rooms(house: str) -> None:
    rooms = {each.name for each in (ROOT / "lakemq" / house).iterdir() if each.is_dir()}
    homeless = [
        str(test)
        for path in (ROOT / "tests" / house).rglob("test_*.py")
        if (test := path.relative_to(ROOT / "tests" / house)).parts[0] not in rooms
    ]
    assert not homeless
