"""A data directory has one writer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakemq.model.errors import LogInUse
from lakemq.storage.disk.files import Files
from lakemq.storage.disk.lock import DirectoryLock


def test_second_writer_is_refused_and_told_who_holds_it(tmp_path: Path) -> None:
    lock = DirectoryLock(Files(), tmp_path, "the first writer")
    with pytest.raises(LogInUse, match=f"in use by the first writer \\(process {os.getpid()} on "):
        DirectoryLock(Files(), tmp_path, "the second writer")
    lock.release()
    again = DirectoryLock(Files(), tmp_path, "the second writer")
    again.release()


@pytest.mark.parametrize("content", [b"", b"no JSON", b"{}", b"[1]", b"\xff" * 5000])
def test_holder_that_left_no_name_is_another_process(tmp_path: Path, content: bytes) -> None:
    lock = DirectoryLock(Files(), tmp_path, "the first writer")
    (tmp_path / "LOCK").write_bytes(content)
    with pytest.raises(LogInUse, match="in use by another process"):
        DirectoryLock(Files(), tmp_path, "the second writer")
    lock.release()


def test_longer_name_of_a_former_holder_leaves_no_rest(tmp_path: Path) -> None:
    DirectoryLock(Files(), tmp_path, "a writer with a long name " * 10).release()
    lock = DirectoryLock(Files(), tmp_path, "short")
    with pytest.raises(LogInUse, match="in use by short "):
        DirectoryLock(Files(), tmp_path, "the second writer")
    lock.release()


@pytest.mark.parametrize("replaced", [False, True])
def test_second_writer_is_refused_after_somebody_has_removed_the_file(tmp_path: Path, replaced: bool) -> None:
    lock = DirectoryLock(Files(), tmp_path, "the first writer")
    (tmp_path / "LOCK").unlink()
    if replaced:
        (tmp_path / "LOCK").touch()
    for _ in range(2):  # nor does the one that was refused leave anything
        with pytest.raises(LogInUse, match="in use by another process, whose file LOCK was removed or replaced"):
            DirectoryLock(Files(), tmp_path, "the second writer")
    lock.release()
    DirectoryLock(Files(), tmp_path, "the second writer").release()


class WithoutFolderLocks(Files):
    """As on NFS."""

    def open_read(self, path: Path) -> int:
        return os.open(path, os.O_PATH) if path.is_dir() else super().open_read(path)  # which can't be locked


def test_directory_that_has_no_such_locks_is_locked_by_its_file(tmp_path: Path) -> None:
    lock = DirectoryLock(WithoutFolderLocks(), tmp_path, "the first writer")
    with pytest.raises(LogInUse, match="in use by the first writer"):
        DirectoryLock(WithoutFolderLocks(), tmp_path, "the second writer")
    lock.release()
