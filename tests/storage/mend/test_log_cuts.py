"""Power cuts and kills in any mutating call of a cut: the log is as before, or cut, and what was cut is kept."""

from __future__ import annotations

import pytest

from tests.storage.ledger import Broken
from tests.storage.log_cuts import CLOSED, run_cut, scene_of

SYNCS = {
    "storage.log.cutting._make: sync_dir": (55,),
    "storage.log.cutting._shorten: sync": (56,),
    "storage.log.positions.note_given: replace.sync": (6,),
    "storage.log.positions.note_given: replace.sync_dir": (119,),
    "storage.mend.truncate._write: replace.sync": (5,),
    "storage.disk.sealed.write_sealed: replace.sync": (6,),
    "storage.disk.sealed.write_sealed: replace.sync_dir": (136,),
}
"""Each sync, and seeds of which at least one breaks a promise when it does nothing."""


def test_no_power_cut_and_no_kill_in_a_cut_leaves_anything_but_the_log_or_the_cut_one() -> None:
    for seed in range(2 * max(scene_of(closed).calls for closed in CLOSED)):
        run_cut(seed)


@pytest.mark.parametrize("site", SYNCS)
def test_without_any_one_sync_a_cut_may_leave_something_else(site: str) -> None:
    for seed in (*SYNCS[site], *range(400)):
        try:
            run_cut(seed, site)
        except Broken:
            return
    pytest.fail("nobody noticed")
