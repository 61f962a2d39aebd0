"""Power cuts and kills in any mutating call of `lakemq log repair`: the log is repaired again, and nothing is lost that
the first repair would have kept."""

from __future__ import annotations

import pytest

from lakemq.model.errors import LogDamaged
from lakemq.storage.log.recovery import REPAIRING
from lakemq.storage.mend.repair import repair_log
from lakemq.storage.mend.verify import verify_log
from tests.storage.harness import LogHarness
from tests.storage.ledger import Broken
from tests.storage.repair_cuts import run_repair

SYNCS = {
    "storage.mend.repair._Rewriter.finish: sync": (1, 21),
    "storage.mend.repair._Repair.put_in_place: replace.sync": (0, 25),
    "storage.mend.repair._Repair.put_in_place: replace.sync_dir": (635,),
    "storage.mend.repair._Repair.put_in_place: sync_dir": (4,),
    "storage.mend.repair._repair: sync_dir": (0, 1),
}
"""Each sync, and seeds of which at least one breaks a promise when it does nothing."""


@pytest.mark.parametrize("first", range(10_000, 10_060, 20))
def test_no_power_cut_in_a_repair_costs_what_the_repair_would_have_kept(first: int) -> None:
    for seed in range(first, first + 20):
        run_repair(seed)


@pytest.mark.parametrize("site", SYNCS)
def test_without_any_one_sync_a_repair_may_lose_more_than_it_says(site: str) -> None:
    for seed in (*SYNCS[site], *range(300)):
        try:
            run_repair(seed, site)
        except Broken:
            return
    pytest.fail("nobody noticed")


def test_half_a_repair_is_refused_by_a_start_and_named_by_verify_until_it_is_done_again(harness: LogHarness) -> None:
    harness.append("a", 0, b"message")
    harness.close()
    (harness.directory / REPAIRING).write_bytes(harness.segment_paths()[0].name.encode())
    with pytest.raises(LogDamaged, match="run it once more"):
        harness.open()
    (damage,) = verify_log(harness.settings.data_dir).damages
    assert damage.segment == REPAIRING
    assert repair_log(harness.settings.data_dir).segments_rewritten == []
    assert verify_log(harness.settings.data_dir).sound
    harness.open()
    assert [message.body for message in harness.read_queue("a", 0)] == [b"message"]


def test_repair_that_the_disk_has_no_room_for_changes_nothing(harness: LogHarness) -> None:
    harness.append("a", 0, b"message")
    harness.close()
    path = harness.segment_paths()[0]
    content = bytearray(path.read_bytes())
    content[-4] ^= 1
    path.write_bytes(content)
    before = {each.name: each.read_bytes() for each in harness.directory.iterdir()}
    harness.files.room_bytes = 100
    with pytest.raises(OSError, match="No space"):
        repair_log(harness.settings.data_dir, harness.files)
    assert {each.name: each.read_bytes() for each in harness.directory.iterdir()} == before
    harness.files.room_bytes = None
    assert repair_log(harness.settings.data_dir, harness.files).positions_lost == 1
