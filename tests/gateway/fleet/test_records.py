"""The small files by which a broker knows, after any end, who was in sync, who it was, and what was confirmed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from lakemq.gateway.fleet.confirmed_mark import NO_MARK, TORN, ConfirmedMark, Mark
from lakemq.gateway.fleet.incarnation import LIVES_MAX, Incarnation
from lakemq.gateway.fleet.static_leadership import NAME, StaticLeadership
from lakemq.model.election import Seal
from lakemq.model.errors import LogDamaged
from lakemq.model.in_sync import Member, Record, grown, shrunk
from lakemq.storage.disk.files import Files
from lakemq.testing import LossyFiles
from tests.gateway.http_client import WAIT_S

LOG = "log"
ALONE = Record(0, 1, 0, (Member(0, "a"),), LOG)
BOTH = grown(ALONE, Member(1, "b"))
SHRUNK = shrunk(BOTH, [Member(1, "b")])
SEEDS = range(40)
SYNCS = ("storage.disk.sealed.write_sealed: replace.sync", "storage.disk.sealed.write_sealed: replace.sync_dir")
"""Without any of them a set that has shrunk may be the larger one again, or none."""


def static(directory: Path, files: Files | None = None, log_id: str = LOG) -> StaticLeadership:
    return StaticLeadership(files or Files(), directory, log_id)


def read(directory: Path, files: Files | None = None, log_id: str = LOG) -> Record | None:
    """What a start finds."""
    return asyncio.run(static(directory, files, log_id).read())


def test_a_record_is_kept_and_only_the_next_one_takes_its_place(tmp_path: Path) -> None:
    async def scene() -> None:
        kept = static(tmp_path)
        assert await kept.read() is None
        assert await kept.compare_and_set(BOTH)
        assert not await kept.compare_and_set(BOTH)
        assert await kept.read() == BOTH
        assert await kept.compare_and_set(SHRUNK)
        assert await kept.read() == SHRUNK

    asyncio.run(scene())
    assert read(tmp_path) == SHRUNK
    assert read(tmp_path, log_id="another") is None


def test_of_two_that_set_at_once_one_succeeds(tmp_path: Path) -> None:
    async def scene() -> list[bool]:
        kept = static(tmp_path)
        await kept.compare_and_set(ALONE)
        return list(await asyncio.gather(*[kept.compare_and_set(each) for each in (BOTH, BOTH._replace(epoch=2))]))

    assert sorted(asyncio.run(scene())) == [False, True]


def test_who_watches_is_told_of_the_next_version_or_that_there_is_none(tmp_path: Path) -> None:
    async def scene() -> None:
        kept = static(tmp_path)
        assert await kept.watch(0, 0.01) is None
        await kept.compare_and_set(ALONE)
        assert await kept.watch(0, 0.01) == ALONE
        assert await kept.watch(7, 60) == ALONE
        watching = asyncio.create_task(kept.watch(0, 60))
        await asyncio.sleep(0)
        await kept.compare_and_set(BOTH)
        assert await watching == BOTH

    asyncio.run(scene())


def test_a_set_that_failed_is_read_again_whatever_became_of_it(tmp_path: Path) -> None:
    async def scene() -> None:
        files = LossyFiles(tmp_path, 0)
        kept = static(tmp_path, files)
        await kept.compare_and_set(ALONE)
        begin = files.calls
        await kept.compare_and_set(BOTH)
        for call in range(files.calls - begin):
            before = await kept.read()
            assert before is not None
            files.fault = (files.calls + 1 + call, 5)
            following = before._replace(version=before.version + 1)
            with pytest.raises(OSError, match="error"):
                await kept.compare_and_set(following)
            found = await kept.read()
            assert found in (before, following)
            assert found == await asyncio.to_thread(lambda: asyncio.run(static(tmp_path, files).read()))

    asyncio.run(scene())


def test_a_set_that_may_have_failed_is_on_disk_before_it_counts(tmp_path: Path) -> None:
    async def shrink(kept: StaticLeadership, fault: Callable[[], object]) -> Record | None:
        await kept.compare_and_set(BOTH)
        fault()
        with pytest.raises(OSError, match="error"):
            await kept.compare_and_set(SHRUNK)
        return await kept.read()

    def calls_of_a_set() -> int:
        root = tmp_path / "counted"
        root.mkdir()
        files = LossyFiles(root, 0)
        kept = static(root, files)
        asyncio.run(kept.compare_and_set(ALONE))
        before = files.calls
        asyncio.run(kept.compare_and_set(BOTH))
        return files.calls - before

    last = calls_of_a_set()
    for seed in SEEDS:
        root = tmp_path / str(seed)
        root.mkdir()
        files = LossyFiles(root, seed)

        def fail_the_last_step(files: LossyFiles = files) -> None:
            files.fault = (files.calls + last, 5)

        assert asyncio.run(shrink(static(root, files), fail_the_last_step)) == SHRUNK
        files.cut_power()
        assert read(root, files) == SHRUNK


def test_a_set_that_was_begun_is_over_when_nobody_waits_for_it_any_more(tmp_path: Path) -> None:
    began, may_go_on = threading.Event(), threading.Event()

    class Slow(Files):
        def rename(self, path: Path, other: Path) -> None:
            began.set()
            assert may_go_on.wait(WAIT_S)
            super().rename(path, other)

    async def scene() -> None:
        setting = asyncio.create_task(static(tmp_path, Slow()).compare_and_set(BOTH))
        assert await asyncio.to_thread(began.wait, WAIT_S)
        setting.cancel()
        asyncio.get_running_loop().call_soon(may_go_on.set)
        with pytest.raises(asyncio.CancelledError):
            await setting
        assert await asyncio.to_thread(read, tmp_path) == BOTH

    asyncio.run(scene())


def test_a_file_that_is_not_sound_is_no_set_of_one(tmp_path: Path) -> None:
    asyncio.run(static(tmp_path).compare_and_set(BOTH))
    path = tmp_path / NAME
    path.write_bytes(path.read_bytes().replace(b'"b"', b'"c"'))
    with pytest.raises(LogDamaged, match="which followers were in sync"):
        read(tmp_path)


def shrink_and_cut(root: Path, seed: int, skipped_site: str | None) -> Record | None:
    """What a start finds when the power is cut just after a set has shrunk."""
    root.mkdir()
    asyncio.run(static(root).compare_and_set(BOTH))
    files = LossyFiles(root, seed)
    files.skipped_site = skipped_site
    kept = static(root, files)
    assert asyncio.run(kept.compare_and_set(SHRUNK))
    files.cut_power()
    try:
        return read(root, files)
    except LogDamaged:
        return None


def test_a_set_that_has_shrunk_has_shrunk_after_any_power_cut(tmp_path: Path) -> None:
    assert {shrink_and_cut(tmp_path / str(seed), seed, None) for seed in SEEDS} == {SHRUNK}


@pytest.mark.parametrize("site", SYNCS)
def test_without_any_one_sync_a_set_that_has_shrunk_may_not_have(tmp_path: Path, site: str) -> None:
    found = {shrink_and_cut(tmp_path / str(seed), seed, site) for seed in SEEDS}
    assert found - {SHRUNK}


def begun(directory: Path, end: int, log_id: str = LOG) -> str:
    """The name of the stretch that begins with a log of that end."""
    incarnation = Incarnation(Files(), directory)
    incarnation.begin(log_id, end)
    return incarnation.name


def test_a_follower_goes_on_as_who_it_was_only_after_a_clean_stop_with_the_same_log(tmp_path: Path) -> None:
    def after(stop: Callable[[Incarnation], object]) -> Callable[..., tuple[str, str]]:
        def scene(end: int, log_id: str = LOG) -> tuple[str, str]:
            incarnation = Incarnation(Files(), tmp_path)
            incarnation.begin(LOG, 5)
            stop(incarnation)
            return incarnation.name, begun(tmp_path, end, log_id)

        return scene

    clean = after(lambda incarnation: incarnation.end(LOG, 5))
    before, now = clean(5)
    assert before == now
    for scene, *found in ((after(lambda _: None), 5), (clean, 4), (clean, 5, "another")):
        before, now = scene(*found)
        assert before != now
    (tmp_path / "REPLICA").write_bytes(b"torn")
    assert begun(tmp_path, 5) not in ("", now)
    Incarnation(Files(), tmp_path).end(LOG, 5)  # it never began: nothing is said


def test_what_was_confirmed_is_known_of_the_same_log_or_nothing_is(tmp_path: Path) -> None:
    mark = ConfirmedMark(Files(), tmp_path)
    assert mark.read(LOG) == NO_MARK
    mark.leave(LOG, Mark(5, sync=True))
    mark.leave(LOG, Mark(9, sync=True))
    mark.leave(LOG, Mark(9, sync=True))
    assert ConfirmedMark(Files(), tmp_path).read(LOG) == Mark(9, sync=True)
    assert ConfirmedMark(Files(), tmp_path).read("another") == NO_MARK
    (tmp_path / "CONFIRMED").write_bytes(b"torn")
    assert mark.read(LOG) == TORN


def test_after_any_power_cut_no_more_is_shown_than_was_confirmed(tmp_path: Path) -> None:
    found: set[Mark] = set()
    for seed in SEEDS:
        root = tmp_path / str(seed)
        root.mkdir()
        files = LossyFiles(root, seed)
        mark = ConfirmedMark(files, root)
        mark.leave(LOG, Mark(5, sync=True))
        mark.leave(LOG, Mark(9, sync=True))
        files.cut_power()
        found.add(ConfirmedMark(files, root).read(LOG))
    assert TORN in found
    assert found <= {TORN, Mark(5, sync=True), Mark(9, sync=True)}


def test_a_mark_that_can_not_be_left_is_tried_again(tmp_path: Path) -> None:
    files = LossyFiles(tmp_path, 0)
    mark = ConfirmedMark(files, tmp_path)
    files.fault = (1, 28)
    mark.leave(LOG, Mark(5, sync=True))
    assert mark.read(LOG) == NO_MARK
    mark.leave(LOG, Mark(5, sync=True))
    assert mark.read(LOG) == Mark(5, sync=True)


def loaded(directory: Path, files: Files | None = None) -> Incarnation:
    """What a start knows of itself."""
    incarnation = Incarnation(files or Files(), directory)
    incarnation.load()
    return incarnation


def test_a_folder_is_all_that_it_was_until_it_begins_anew_or_has_another_log(tmp_path: Path) -> None:
    names = [begun(tmp_path, 5) for _ in range(3)]
    assert loaded(tmp_path).lives == tuple(names)
    leads = loaded(tmp_path)
    leads.begin_to_lead()  # after no clean end: a life of its own
    assert leads.lives == (*names, leads.name)
    leads.end(LOG, 7)
    again = loaded(tmp_path)
    again.begin_to_lead()
    assert again.name == leads.name
    again.forget()
    assert (loaded(tmp_path).lives, loaded(tmp_path).name) == ((), "")
    name = begun(tmp_path, 7)
    assert loaded(tmp_path).lives == (name,)
    assert loaded(tmp_path).log_id == LOG
    name = begun(tmp_path, 7, "another")
    assert loaded(tmp_path).lives == (name,)


def test_as_many_lives_are_remembered_as_a_record_can_be_old(tmp_path: Path) -> None:
    names = [begun(tmp_path, 5) for _ in range(LIVES_MAX + 3)]
    assert loaded(tmp_path).lives == tuple(names[-LIVES_MAX:])


def test_the_highest_epoch_is_what_was_seen_or_promised(tmp_path: Path) -> None:
    incarnation = loaded(tmp_path)
    incarnation.see(3)
    incarnation.see(2)
    assert loaded(tmp_path).highest == 3
    incarnation.promise(Seal(4, 9))
    assert (loaded(tmp_path).highest, loaded(tmp_path).seal) == (4, Seal(4, 9))
    incarnation.lift()
    incarnation.lift()
    assert (loaded(tmp_path).highest, loaded(tmp_path).seal) == (3, None)


def promise_and_cut(root: Path, seed: int, skipped_site: str | None) -> int:
    """The highest epoch that a start knows of when the power is cut just after a candidate has promised one."""
    root.mkdir()
    loaded(root).see(3)
    files = LossyFiles(root, seed)
    files.skipped_site = skipped_site
    loaded(root, files).promise(Seal(4, 9))
    files.cut_power()
    return loaded(root, files).highest


def test_what_a_candidate_has_promised_it_knows_after_any_power_cut(tmp_path: Path) -> None:
    assert {promise_and_cut(tmp_path / str(seed), seed, None) for seed in SEEDS} == {4}


@pytest.mark.parametrize("site", SYNCS)
def test_without_any_one_sync_a_candidate_may_not_know_what_it_has_promised(tmp_path: Path, site: str) -> None:
    assert {promise_and_cut(tmp_path / str(seed), seed, site) for seed in SEEDS} - {4}
