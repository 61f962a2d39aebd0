from __future__ import annotations

import pytest

from lakemq.model.disk_outlook import DiskOutlook, fills_up

MIB = 2**20


def test_nothing_is_foretold_before_anything_grew() -> None:
    outlook = DiskOutlook()
    assert outlook.full_in_s(0) is None
    outlook.look(100 * MIB, 0)
    assert outlook.full_in_s(0) is None
    outlook.look(100 * MIB, 10)
    outlook.look(110 * MIB, 20)
    assert outlook.full_in_s(0) is None


def test_what_grows_evenly_is_full_when_it_must_be() -> None:
    outlook = DiskOutlook()
    for step in range(500):
        outlook.look(10_000 * MIB - step * MIB, step * 10.0)
    assert outlook.full_in_s(1_000 * MIB) == pytest.approx((9_000 - 499) * 10, rel=0.01)


def test_a_full_disk_is_full_now_and_a_look_at_once_changes_nothing() -> None:
    outlook = DiskOutlook()
    outlook.look(5, 1.0)
    outlook.look(5, 1.0)
    assert outlook.full_in_s(5) == 0.0


def test_a_disk_that_fills_up_is_told_in_units_that_people_read() -> None:
    assert fills_up(125, 1_000, 145.2 * 3600) == "the disk fills up: 88% are used, and full in 6 d at this pace"
    assert fills_up(125, 1_000, None) == "the disk fills up: 88% are used"
    assert fills_up(0, 0, 47 * 3600) == "the disk fills up: 100% are used, and full in 47 h at this pace"
