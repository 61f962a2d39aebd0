"""Who finds the token of the jobs' SQL server, and what else may be in its place."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lakemq.jobs.session.token_file import FILE, forget_token, keep_token, read_token, token_for
from lakemq.model.errors import SettingsError
from lakemq.settings import Sql
from lakemq.storage.disk import privacy
from lakemq.storage.lake.delta_log import tables_of

NOBODY = 65534


def put(lake: Path, text: str = "of-somebody\n", mode: int = 0o600) -> Path:
    file = lake / FILE
    file.write_text(text)
    file.chmod(mode)
    return file


def refusal(lake: Path) -> str:
    with pytest.raises(SettingsError) as refused:
        read_token(lake)
    assert "set sql.token" in refused.value.detail
    assert "of-somebody" not in refused.value.detail
    return refused.value.detail


def test_who_has_started_the_jobs_finds_their_token_and_another_one_after_the_next_start(tmp_path: Path) -> None:
    for token in ("first", "second"):
        keep_token(tmp_path, token)
        assert read_token(tmp_path) == token
    assert (tmp_path / FILE).stat().st_mode & 0o7777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == [FILE]
    assert tables_of(tmp_path) == []
    forget_token(tmp_path)
    forget_token(tmp_path)
    assert "there is none" in refusal(tmp_path)


def test_a_token_that_is_set_is_in_no_file_and_goes_before_one(tmp_path: Path) -> None:
    keep_token(tmp_path, "of the start before")
    assert token_for(Sql(token="set"), tmp_path) == "set"
    keep_token(tmp_path, "")
    assert list(tmp_path.iterdir()) == []
    assert token_for(Sql(token="set"), tmp_path) == "set"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o644])
def test_a_token_that_others_read_or_wrote_is_refused(tmp_path: Path, mode: int) -> None:
    put(tmp_path, mode=mode)
    assert "others can read or write it" in refusal(tmp_path)


def as_link(file: Path) -> None:
    file.rename(file.with_name("elsewhere"))
    file.symlink_to("elsewhere")


def as_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file, 0o600)


def as_folder(file: Path) -> None:
    file.unlink()
    file.mkdir(0o700)


@pytest.mark.parametrize("make", [as_link, as_pipe, as_folder])
def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(put(tmp_path))
    assert "not to be trusted" in refusal(tmp_path)


@pytest.mark.parametrize("text", ["", "\n", "schlüssel"])
def test_what_has_no_token_in_it_is_refused(tmp_path: Path, text: str) -> None:
    put(tmp_path, text)
    assert "there is no token in it" in refusal(tmp_path)


def test_a_token_of_another_user_is_refused_and_roots_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = put(tmp_path).stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    if owner == 0:
        assert read_token(tmp_path) == "of-somebody"
        os.chown(tmp_path / FILE, NOBODY, NOBODY)
    assert "another user's" in refusal(tmp_path)


def test_who_can_not_read_the_token_is_told_what_to_do(tmp_path: Path) -> None:
    file = put(tmp_path)
    is_root = os.geteuid() == 0
    try:
        if is_root:
            os.seteuid(NOBODY)
        else:
            file.chmod(0)
        said = refusal(tmp_path)
    finally:
        if is_root:
            os.seteuid(0)
    assert said == (
        f"the SQL server of these jobs wants a token; it is in {file}, which only its owner reads; set sql.token"
    )


def test_where_no_file_can_be_kept_from_others_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As on a file system without modes: there a file is everybody's, whatever it was made with."""
    made = os.open
    monkeypatch.setattr(privacy.os, "open", lambda path, flags, mode: made(path, flags, mode | 0o044))
    old = os.umask(0)
    try:
        with caplog.at_level(logging.WARNING):
            keep_token(tmp_path, "of-somebody")
    finally:
        os.umask(old)
    assert list(tmp_path.iterdir()) == []
    assert "set sql.token" in caplog.text
    assert "of-somebody" not in caplog.text
