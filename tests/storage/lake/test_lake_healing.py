"""A power cut between each two steps of a commit to the lake, and what a start makes of it."""

from __future__ import annotations

import errno
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakemq.model.errors import LakeDamaged
from lakemq.storage.disk.files import Files
from lakemq.storage.lake import log_marks
from lakemq.storage.lake.certain import OF_MESSAGES, CertainLake
from lakemq.storage.lake.delta_files import DeltaFiles
from lakemq.storage.lake.heal import SET_ASIDE, MustBeAlone, drop_set_aside, heal
from lakemq.storage.lake.intact import fault_of, sidecar_of
from lakemq.storage.lake.log_marks import LogMark, append_identifiers, log_identifier, replaced
from lakemq.storage.lake.progress import read_progress
from lakemq.storage.lake.proof_mark import FOLDER, Proved, read_marks
from lakemq.storage.lake.prove import prove
from tests.storage.lake_tables import APP, commit, entry, newest_file, positions

MESSAGES = "messages"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Proved up to position 20, and a commit up to 30 that is not."""
    lake = tmp_path / "lake"
    commit(lake, 0, 10)
    commit(lake, 10, 20)
    prove(lake)
    commit(lake, 20, 30)
    return lake


def halve(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def zero_a_page(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 3 : len(content) // 3 + 64] = bytes(64)
    path.write_bytes(content)


def without_its_end(path: Path) -> None:
    """Of an entry of the lake query's: what is there can be read, but its last line, the progress, is lacking."""
    lines = [line for line in path.read_bytes().splitlines() if b'"txn"' not in line and b'"commitInfo"' not in line]
    path.write_bytes(b"\n".join([b'{"commitInfo":{"operation":"STREAMING UPDATE"}}', *lines, b""]))


DAMAGES: dict[str, Callable[[Path], None]] = {
    "file missing": lambda lake: newest_file(lake, MESSAGES).unlink(),
    "file empty": lambda lake: empty(newest_file(lake, MESSAGES)),
    "file torn": lambda lake: halve(newest_file(lake, MESSAGES)),
    "file with a lost page": lambda lake: zero_a_page(newest_file(lake, MESSAGES)),
    "entry missing": lambda lake: entry(lake, MESSAGES, 2).unlink(),
    "entry empty": lambda lake: empty(entry(lake, MESSAGES, 2)),
    "entry torn": lambda lake: halve(entry(lake, MESSAGES, 2)),
    "entry with a lost page": lambda lake: zero_a_page(entry(lake, MESSAGES, 2)),
    "entry without its end": lambda lake: without_its_end(entry(lake, MESSAGES, 2)),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_commit_that_a_power_cut_tore_is_undone_with_its_progress(lake: Path, damage: Callable[[Path], None]) -> None:
    damage(lake)
    heal(lake)
    assert positions(lake, MESSAGES) == list(range(20))
    assert read_progress(lake / MESSAGES).held == {"broker-a": 20}
    assert positions(lake, "consume_queue") == list(range(30))
    commit(lake, 20, 30, (MESSAGES,))
    prove(lake)
    assert heal(lake) == []
    assert positions(lake, MESSAGES) == list(range(30))
    assert CertainLake(lake, "broker-a").look() == (30, None)


@pytest.mark.parametrize("name", sorted(set(DAMAGES) - {"entry missing"}))
def test_nothing_is_set_aside_while_others_commit(lake: Path, name: str) -> None:
    DAMAGES[name](lake)
    there = {path for path in lake.rglob("*") if path.suffix == ".json"}
    with pytest.raises(MustBeAlone):
        heal(lake, is_alone=False)
    assert {path for path in lake.rglob("*") if path.suffix == ".json"} == there


def test_what_a_crash_of_the_process_left_whole_stays(lake: Path) -> None:
    assert heal(lake, is_alone=False) == []
    assert heal(lake) == []
    assert positions(lake, MESSAGES) == list(range(30))


def test_what_came_after_a_torn_commit_goes_too_and_nothing_is_thrown_away(lake: Path) -> None:
    commit(lake, 30, 40)
    kept = entry(lake, MESSAGES, 3).read_bytes()
    entry(lake, MESSAGES, 2).unlink()
    (said,) = heal(lake)
    assert "version 2 is missing" in said
    assert read_progress(lake / MESSAGES).held == {"broker-a": 20}
    (aside,) = (lake / FOLDER).rglob(f"{MESSAGES}/{3:020}.json")
    assert aside.read_bytes() == kept


def test_what_was_set_aside_goes_after_its_time(lake: Path) -> None:
    """It was kept for ever, with keys in its statistics that were erased since."""
    entry(lake, MESSAGES, 2).write_bytes(b"")
    heal(lake)
    (at,) = (lake / FOLDER / SET_ASIDE).iterdir()
    other = at.parent / "put there by hand"
    other.mkdir()
    assert drop_set_aside(lake, int(at.name)) == 0
    assert list(at.rglob("*.json"))
    assert drop_set_aside(lake, int(at.name) + 1) == 1
    assert list(at.parent.iterdir()) == [other]
    assert drop_set_aside(lake / "elsewhere", int(at.name) + 1) == 0


def test_a_table_that_lost_its_first_entry_is_made_anew(tmp_path: Path) -> None:
    commit(tmp_path, 0, 10)
    for name in OF_MESSAGES:
        empty(entry(tmp_path, name, 0))
    assert len(heal(tmp_path, {APP: 0})) == 3
    assert read_progress(tmp_path / MESSAGES).version == -1
    commit(tmp_path, 0, 10)
    assert positions(tmp_path, MESSAGES) == list(range(10))


def test_a_torn_checkpoint_is_set_aside_and_the_entries_say_it_all(lake: Path) -> None:
    DeltaTable(lake / MESSAGES).create_checkpoint()
    (checkpoint,) = (lake / MESSAGES / "_delta_log").glob("*.checkpoint.parquet")
    halve(checkpoint)
    empty(lake / MESSAGES / "_delta_log" / "_last_checkpoint")
    heal(lake)
    assert positions(lake, MESSAGES) == list(range(30))
    assert not checkpoint.exists()


def test_a_checkpoint_that_came_after_its_version_was_proved_is_looked_at_too(lake: Path) -> None:
    """Of two threads that commit one may prove the other's version while that still writes its checkpoint."""
    prove(lake)
    DeltaTable(lake / MESSAGES).create_checkpoint()
    (checkpoint,) = (lake / MESSAGES / "_delta_log").glob("*.checkpoint.parquet")
    heal(lake)
    assert checkpoint.exists()
    halve(checkpoint)
    heal(lake)
    assert not checkpoint.exists()
    assert positions(lake, MESSAGES) == list(range(30))


def test_without_a_mark_everything_is_looked_at_and_undone_only_where_the_log_has_it(lake: Path) -> None:
    (lake / FOLDER / "proved.json").write_text("{torn")
    newest_file(lake, MESSAGES).unlink()
    with pytest.raises(LakeDamaged, match="no longer hold"):
        heal(lake, {APP: 21})
    with pytest.raises(LakeDamaged):
        heal(lake)
    assert entry(lake, MESSAGES, 2).exists()
    heal(lake, {APP: 20})
    assert read_progress(lake / MESSAGES).held == {"broker-a": 20}
    assert CertainLake(lake, "broker-a").look().position == 0
    prove(lake)
    assert CertainLake(lake, "broker-a").look() == (20, None)


def test_a_mark_of_another_table_proves_nothing(lake: Path) -> None:
    for path in (lake / MESSAGES).rglob("*"):
        if path.is_file():
            path.unlink()
    (lake / MESSAGES / "_delta_log").rmdir()
    for begin in (0, 10, 20):
        commit(lake, begin, begin + 5, (MESSAGES,))
    certain = CertainLake(lake, "broker-a").look()
    assert certain.position == 0
    assert "not the one" in str(certain.why)


def test_a_file_that_a_later_commit_removed_need_not_be_there(lake: Path) -> None:
    (lake / FOLDER / "proved.json").unlink()
    table = DeltaTable(lake / MESSAGES)
    table.optimize.compact()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert heal(lake, {APP: 0}) == []
    newest_file(lake, MESSAGES).unlink()  # and of what optimize made, nothing is left
    heal(lake, {APP: 0})
    assert read_progress(lake / MESSAGES).held == {}


class BadDisk(Files):
    """A disk that takes no data of one kind of file, once."""

    def __init__(self, suffix: str) -> None:
        self._suffix, self._names = suffix, {}

    def open_read(self, path: Path) -> int:
        descriptor = super().open_read(path)
        self._names[descriptor] = path
        return descriptor

    def sync(self, descriptor: int) -> None:
        if self._names[descriptor].suffix == self._suffix:
            self._suffix = "none"
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().sync(descriptor)


@pytest.mark.parametrize("suffix", [".parquet", ".json"])
def test_a_commit_whose_sync_failed_is_not_believed_however_it_looks(lake: Path, suffix: str) -> None:
    with pytest.raises(OSError, match="Input/output"):
        prove(lake, BadDisk(suffix))
    marks = read_marks(lake)
    with pytest.raises(OSError, match="nobody has looked"):  # the disk takes it now, but of what the page cache shows
        prove(lake)
    assert read_marks(lake) == marks
    with pytest.raises(MustBeAlone):
        heal(lake, is_alone=False)
    assert len(heal(lake)) == 1
    held = [read_progress(lake / name).held["broker-a"] for name in OF_MESSAGES]
    assert sorted(held) == [20, 30, 30]
    assert heal(lake) == []
    prove(lake)
    assert CertainLake(lake, "broker-a").look() == (20, None)


class NoDisk(Files):
    """A disk that takes nothing."""

    def sync(self, descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_failed_sync_is_remembered_where_the_disk_refuses_to_have_it_written_down_too(lake: Path) -> None:
    with pytest.raises(OSError, match="Input/output"):
        prove(lake, NoDisk())
    assert [mark.distrusted for mark in read_marks(lake).values()] == [None] * len(OF_MESSAGES)
    with pytest.raises(OSError, match="nobody has looked"):
        prove(lake)
    assert len(heal(lake)) == 1
    assert sorted(read_progress(lake / name).held["broker-a"] for name in OF_MESSAGES) == [20, 30, 30]
    prove(lake)


class Order(Files):
    """Notes what is brought to disk, in order."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def open_read(self, path: Path) -> int:
        self.done.append(path.name)
        return super().open_read(path)

    def sync_dir(self, path: Path) -> None:
        self.done.append(path.name + "/")
        super().sync_dir(path)


def test_data_come_to_disk_before_their_entry_and_that_before_the_mark(lake: Path) -> None:
    data, order = newest_file(lake, MESSAGES).name, Order()
    prove(lake, order)
    steps = [data, "messages/", f"{2:020}.json", "_delta_log/", "_lakemq/"]
    done = order.done[order.done.index(data) :]
    at = [done.index(step) if step != "_lakemq/" else len(done) - 1 for step in steps]
    assert at == sorted(at)
    assert done[-1] == "_lakemq/"
    assert not [name for name in order.done if f"{1:020}" in name]  # what was proved is not looked at again
    order.done.clear()
    prove(lake, order)
    assert order.done == []


def test_a_reader_notices_that_a_version_came_to_be_another(lake: Path) -> None:
    table = DeltaFiles(lake / MESSAGES, "broker-a")
    first = table.version(30)
    assert first is not None
    newest_file(lake, MESSAGES).unlink()
    heal(lake)
    commit(lake, 20, 25, (MESSAGES,))
    commit(lake, 25, 35, (MESSAGES,))
    second = table.version(35)
    assert second is not None
    assert sum(size for _, size in second.sizes()) > 0
    assert all(path.exists() for path, _ in second.sizes())
    assert second.held == 35


# How far it is certain -----------------------------------------------------------------------


def test_only_what_is_proved_is_certain(lake: Path) -> None:
    assert CertainLake(lake, "broker-a").look() == (20, None)
    assert CertainLake(lake, "another").look() == (0, None)


@pytest.mark.parametrize("table", OF_MESSAGES)
def test_nothing_is_certain_where_a_file_or_a_table_is_lacking(lake: Path, table: str) -> None:
    certain = CertainLake(lake, "broker-a")
    some = next((lake / table).glob("*.parquet"))
    content = some.read_bytes()
    empty(some)
    assert certain.look(again=False).position == 0
    assert str(some.name) in str(CertainLake(lake, "broker-a").look().why)
    some.write_bytes(content)
    assert certain.look().position == 20
    (lake / table).rename(lake / "away")
    assert certain.look().position == 0


def test_where_there_is_no_lake_nothing_is_certain(tmp_path: Path) -> None:
    assert CertainLake(tmp_path / "lake", "broker-a").look().position == 0
    commit(tmp_path, 0, 10)
    found = CertainLake(tmp_path, "broker-a").look()
    assert (found.position, "on disk for certain" in str(found.why)) == (0, True)


def test_a_table_of_another_kind_is_no_concern_of_the_log(lake: Path) -> None:
    commit(lake, 0, 1, ("maintenance_runs",))
    (entry(lake, "maintenance_runs", 0)).write_bytes(
        b"\n".join(
            line for line in entry(lake, "maintenance_runs", 0).read_bytes().splitlines() if b'"txn"' not in line
        )
    )
    prove(lake)
    assert CertainLake(lake, "broker-a").look() == (30, None)
    assert read_marks(lake)["maintenance_runs"] == Proved(0, read_marks(lake)["maintenance_runs"].checksum)


def tear_last(lake: Path, name: str) -> None:
    empty(max((lake / name / "_delta_log").glob("*.json")))


@pytest.mark.parametrize("name", ["maintenance_runs", "lake_stats", "log_holes"])
def test_what_the_jobs_say_of_themselves_is_not_missed_in_any_log(lake: Path, name: str) -> None:
    """Regression: a torn entry of it was `lake_damaged` where a log began above 0, so the jobs did not start."""
    add_row(lake, name, 0)
    tear_last(lake, name)
    (said,) = heal(lake, {APP: 20})
    assert "its last rows are lost" in said
    assert not (lake / name / "_delta_log").exists()
    for number in range(4):
        add_row(lake, name, number)
    table = DeltaTable(lake / name)
    table.create_checkpoint()
    for version in range(3):
        os.utime(entry(lake, name, version), (0, 0))
    table.cleanup_metadata()
    assert heal(lake, {APP: 20}) == []
    add_row(lake, name, 4)
    assert min((lake / name / "_delta_log").glob("*.json")) == entry(lake, name, 3), "the log begins above version 0"
    assert heal(lake, {APP: 20}) == []
    tear_last(lake, name)
    heal(lake, {APP: 20})
    assert positions(lake, name) == [0, 1, 2, 3]
    add_row(lake, name, 4)
    assert positions(lake, name) == [0, 1, 2, 3, 4]


def add_row(lake: Path, name: str, number: int) -> None:
    """As the jobs do: no progress is in it."""
    write_deltalake(lake / name, pa.table({"position": pa.array([number], pa.int64())}), mode="append")


# Whether a file is as it was written ---------------------------------------------------------


def write_sidecar(path: Path, chunk: int = 512) -> None:
    content = path.read_bytes()
    sums = [zlib.crc32(content[at : at + chunk]) for at in range(0, len(content), chunk)]
    sidecar_of(path).write_bytes(b"crc\0" + struct.pack(f">I{len(sums)}I", chunk, *sums))


def test_a_sidecar_finds_any_byte_that_differs(lake: Path) -> None:
    path = newest_file(lake, MESSAGES)
    write_sidecar(path)
    assert fault_of(path) is None
    content = path.read_bytes()
    for at in range(0, len(content), 97):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        assert fault_of(path) is not None, at
    path.write_bytes(content)
    assert fault_of(path, len(content)) is None
    assert fault_of(path, len(content) + 1) is not None


def test_checksums_of_an_entry_that_never_came_are_not_left_for_the_one_to_come(lake: Path) -> None:
    path = entry(lake, MESSAGES, 2)
    write_sidecar(path)
    path.unlink()
    assert len(heal(lake)) == 1
    assert not sidecar_of(path).exists()
    assert heal(lake) == []


def test_a_torn_sidecar_says_nothing_and_goes(lake: Path) -> None:
    path = newest_file(lake, MESSAGES)
    write_sidecar(path)
    halve(sidecar_of(path))
    assert fault_of(path) is None
    assert heal(lake) == []
    assert not sidecar_of(path).exists()


# Which log it is of --------------------------------------------------------------------------


def test_a_table_says_of_which_log_it_is_and_another_one_may_follow(lake: Path) -> None:
    for name in OF_MESSAGES:
        append_identifiers(lake / name, {log_identifier("broker-a", "first"): 1})
    prove(lake)
    assert CertainLake(lake, "broker-a").look(log_id="first").position == 30
    assert "not of this log" in str(CertainLake(lake, "broker-a").look(log_id="second").why)
    first = read_progress(lake / MESSAGES).logs["broker-a"]
    append_identifiers(lake / MESSAGES, replaced("broker-a", first, "second"))
    assert read_progress(lake / MESSAGES).logs == {"broker-a": LogMark(2, "second")}
    assert read_progress(lake / MESSAGES).held == {"broker-a": 30}
    assert positions(lake, MESSAGES) == list(range(30))
    assert DeltaFiles(lake / MESSAGES, "broker-a", lambda: "first").version(0) is None
    assert DeltaFiles(lake / MESSAGES, "broker-a", lambda: "second").version(30) is not None


def test_an_entry_that_somebody_else_made_is_not_replaced(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_marks, "entries_of", lambda _: {1: Path()})
    with pytest.raises(FileExistsError):
        append_identifiers(lake / MESSAGES, {APP: 1})
    assert not list((lake / MESSAGES / "_delta_log").glob(".*.tmp"))
