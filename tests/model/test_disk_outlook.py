from __future__ import annotations

import pytest

from lakemq.model.disk_outlook import DiskOutlook

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
