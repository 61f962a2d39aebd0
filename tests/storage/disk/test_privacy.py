from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from lakemq.storage.disk.files import Files
from lakemq.storage.disk.lock import DirectoryLock
from lakemq.storage.disk.privacy import tighten, write_private


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_directory_that_is_there_is_closed_with_the_files_in_it(tmp_path: Path) -> None:
    data, log = tmp_path / "data", tmp_path / "data" / "commitlog"
    log.mkdir(parents=True)
    segment = log / "0.log"
    segment.write_bytes(b"x")
    other = tmp_path / "other"
    other.write_bytes(b"x")
    for path, open_to_all in ((data, 0o755), (log, 0o755), (segment, 0o644), (other, 0o644)):
        path.chmod(open_to_all)
    (log / "link").symlink_to(other)
    tighten(data, log, data / "none")
    assert [mode(path) for path in (data, log, segment, other)] == [0o700, 0o700, 0o600, 0o644]


def test_a_directory_that_is_made_is_closed_whatever_the_umask_is(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        Files().make_dirs(tmp_path / "data")
        descriptor = Files().open_append(tmp_path / "data" / "0.log")
        Files().replace(tmp_path / "data" / "0.idx", [b"x"])
        lock = DirectoryLock(Files(), tmp_path / "data", "a test")
    finally:
        os.umask(old)
    os.close(descriptor)
    lock.release()
    assert mode(tmp_path / "data") == 0o700
    assert {path.name: mode(path) for path in (tmp_path / "data").iterdir()} == {
        "0.log": 0o600,
        "0.idx": 0o600,
        "LOCK": 0o600,
    }


def test_a_lock_that_others_could_hold_is_closed(tmp_path: Path) -> None:
    (tmp_path / "LOCK").touch(0o644)
    (tmp_path / "LOCK").chmod(0o644)
    DirectoryLock(Files(), tmp_path, "a test").release()
    assert mode(tmp_path / "LOCK") == 0o600


def test_what_can_not_be_closed_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As root no change is refused, so here the system's answer is made up."""

    def refuse(*_: object) -> None:
        raise PermissionError("not yours")

    tmp_path.chmod(0o755)
    monkeypatch.setattr(Path, "chmod", refuse)
    with caplog.at_level(logging.WARNING):
        tighten(tmp_path)
    assert "can be used by other users" in caplog.text


def test_what_is_private_is_nobody_elses_at_any_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where another user could open it between its making and its closing it is read for ever."""
    file, seen = tmp_path / "secret", list[tuple[str, int]]()
    file.write_text("old")
    (tmp_path / "secret.new").write_text("left by a crash")
    (tmp_path / "secret.new").chmod(0o666)
    opened = os.open

    def watched(path: Path, flags: int, at: int) -> int:
        descriptor = opened(path, flags, at)
        seen.append((path.read_text(), mode(path)))
        return descriptor

    old = os.umask(0)
    try:
        monkeypatch.setattr(os, "open", watched)
        write_private(file, "new")
    finally:
        os.umask(old)
    assert seen == [("", 0o600)]
    assert (file.read_text(), mode(file)) == ("new", 0o600)
    assert list(tmp_path.iterdir()) == [file]


def test_no_link_is_followed_to_where_something_private_would_be_written(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("x")
    (tmp_path / "secret.new").symlink_to(other)
    write_private(tmp_path / "secret", "new")
    assert other.read_text() == "x"
    assert not (tmp_path / "secret").is_symlink()
