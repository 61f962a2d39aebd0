"""What Spark has on its way to a bucket is below the lake's `work_dir`, and goes when its process has ended."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from lakemq.jobs.session.object_storage import BUFFER_DIR, object_conf
from lakemq.jobs.session.upload_buffers import BUFFERS, buffer_folder
from lakemq.model.errors import SettingsError
from lakemq.testing.object_store import ObjectStore
from tests.objects.stores import path_in

ANOTHER = """
import sys
from pathlib import Path
from lakemq.jobs.session.upload_buffers import buffer_folder
from lakemq.objects.bucket import Access
from lakemq.objects.path import ObjectPath

folder = buffer_folder(ObjectPath.parse("s3://bucket/lake", Access(), Path(sys.argv[1])))
(folder / "s3ablock-0001.tmp").write_text("a body")
print(folder, flush=True)
sys.stdin.read()
"""


def test_what_a_killed_process_left_goes_at_the_next_start_and_what_others_have_stays(
    object_store: ObjectStore, tmp_path: Path
) -> None:
    with another(tmp_path) as killed, another(tmp_path) as alive:
        left, kept = folder_of(killed), folder_of(alive)
        killed.kill()
        killed.wait(60)
        (tmp_path / BUFFERS / "0.new").mkdir()
        (tmp_path / BUFFERS / "1.new").mkdir()
        os.utime(tmp_path / BUFFERS / "1.new", (0, 0))
        lake = path_in(object_store, "s3://bucket/lake", tmp_path)
        lake = type(lake)(lake.bucket, lake.key, tmp_path)
        own = buffer_folder(lake)
        assert {each.name for each in (tmp_path / BUFFERS).iterdir()} == {own.name, kept.name, "0.new"}
        assert not left.exists()
        assert (kept / "s3ablock-0001.tmp").exists()
        assert buffer_folder(lake) == own
        assert object_conf(lake, {})["spark.hadoop.fs.s3a.buffer.dir"] == str(own)
        assert stat.S_IMODE(own.stat().st_mode) == 0o700
        alive.kill()


def test_what_it_is_made_in_is_this_users_alone(object_store: ObjectStore, tmp_path: Path) -> None:
    found = path_in(object_store, "s3://bucket/lake", tmp_path)
    buffer_folder(type(found)(found.bucket, found.key, tmp_path / "work"))
    assert stat.S_IMODE((tmp_path / "work").stat().st_mode) == 0o700


def test_who_may_write_nothing_there_has_a_folder_of_its_own(
    object_store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    own = buffer_folder(path_in(object_store, "s3://bucket/lake", tmp_path / "file"))
    assert own.parent == tmp_path
    assert stat.S_IMODE(own.stat().st_mode) == 0o700


def another(work_dir: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", ANOTHER, str(work_dir)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def folder_of(process: subprocess.Popen[str]) -> Path:
    assert process.stdout is not None
    return Path(process.stdout.readline().strip())


@pytest.mark.parametrize("name", ["a,b", "${user.home}"])
def test_a_folder_that_hadoop_would_take_for_others_is_refused_unless_another_is_given(
    object_store: ObjectStore, tmp_path: Path, name: str
) -> None:
    """With a comma in it bodies came to be in two other folders, which nobody cleans up."""
    found = path_in(object_store, "s3://bucket/lake", tmp_path)
    lake = type(found)(found.bucket, found.key, tmp_path / name)
    with pytest.raises(SettingsError, match=r"Hadoop can't keep uploads in .* Set lake\.work_dir"):
        object_conf(lake, {})
    assert BUFFER_DIR not in object_conf(lake, {BUFFER_DIR: "/one,/other"})
