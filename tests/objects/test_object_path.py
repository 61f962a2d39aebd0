"""A lake's paths in a bucket, on a real server of HTTP."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakemq.model.errors import NotInObjectStorage, SettingsError, StoreUnsafe
from lakemq.objects.path import ObjectPath, beside, opened
from lakemq.objects.probe import check_store
from lakemq.settings import load
from lakemq.storage.lake.delta_log import tables_of
from lakemq.storage.lake.table_file import TableFile
from lakemq.testing.object_store import ObjectStore, Stored
from tests.objects.stores import path_in


@pytest.fixture
def folder(object_store: ObjectStore, tmp_path: Path) -> ObjectPath:
    return path_in(object_store, f"s3://paths/{tmp_path.name}", tmp_path)


@pytest.fixture
def careless() -> Iterator[ObjectStore]:
    """A store that passes over If-None-Match."""
    store = ObjectStore(is_strict=False)
    yield store
    store.close()


def test_what_is_written_is_read_listed_and_removed(folder: ObjectPath) -> None:
    file = folder / "messages" / "part one+2%.json"
    assert not (folder / "messages").is_dir()
    with pytest.raises(FileNotFoundError):
        file.read_bytes()
    file.write_bytes(b"abc")
    (folder / "messages" / "deep" / "er").write_bytes(b"")
    assert file.read_bytes() == b"abc"
    assert file.stat().st_size == 3
    assert sorted(path.name for path in (folder / "messages").iterdir()) == ["deep", "part one+2%.json"]
    assert [path.name for path in folder.rglob("*.json")] == ["part one+2%.json"]
    assert (folder / "messages").is_dir()
    assert not (folder / "mess").is_dir()
    file.unlink()
    assert not file.exists()


def test_a_folder_of_many_pages_is_listed_whole(folder: ObjectPath) -> None:
    for number in range(1_050):
        folder.bucket.store.put(f"{folder.key}/many/{number}", b"")
    assert len(list((folder / "many").iterdir())) == 1_050


def test_an_object_is_made_once(folder: ObjectPath) -> None:
    assert (folder / "once").create(b"first")
    assert not (folder / "once").create(b"second")
    assert (folder / "once").read_bytes() == b"first"


def test_a_parquet_file_appears_whole_and_is_read_by_parts(folder: ObjectPath) -> None:
    schema = pa.schema([("position", pa.int64())])
    file = TableFile(folder / "file.parquet", schema)
    file.add(pa.record_batch([pa.array(range(1000))], schema))
    assert not (folder / "file.parquet").exists()
    assert file.finish() == 1000
    with pq.ParquetFile(opened(folder / "file.parquet")) as found:
        assert found.read()["position"].to_pylist() == list(range(1000))
    abandoned = TableFile(folder / "none.parquet", schema)
    abandoned.abandon()
    assert not (folder / "none.parquet").exists()
    assert list((folder.work_dir / "uploads").iterdir()) == []


def test_nothing_takes_it_for_a_local_file(folder: ObjectPath) -> None:
    with pytest.raises(NotInObjectStorage):
        open(folder)  # noqa: PTH123, SIM115 (what is refused)
    with pytest.raises(NotInObjectStorage):
        folder.rename(folder / "other")
    assert beside(folder) == folder.work_dir


def test_it_goes_into_tasks_with_its_keys_and_shows_none(folder: ObjectPath) -> None:
    copy = pickle.loads(pickle.dumps(folder))
    assert copy == folder
    (copy / "x").write_bytes(b"1")
    assert (folder / "x").read_bytes() == b"1"
    assert "secret" not in repr(folder) + str(folder)


def test_a_store_that_makes_objects_once_passes(folder: ObjectPath) -> None:
    check_store(folder / "_lakemq")
    assert tables_of(folder) == []
    assert list(folder.rglob("*")) == []


def test_a_store_that_passes_over_if_none_match_is_refused(careless: ObjectStore, tmp_path: Path) -> None:
    with pytest.raises(StoreUnsafe) as refused:
        check_store(path_in(careless, "s3://bucket/lake", tmp_path))
    assert refused.value.code == "store_unsafe"


class Forgetful(ObjectStore):
    """The first objects are made, and who made them is told that they were there: an answer was lost."""

    def __init__(self, lost: int) -> None:
        self.lost = lost
        super().__init__()

    def put(self, name: str, data: bytes, if_none_match: str | None) -> Stored | None:
        made = super().put(name, data, if_none_match)
        if made is not None and self.lost:
            self.lost -= 1
            return None
        return made


def test_a_lost_answer_is_no_unsafe_store(tmp_path: Path) -> None:
    store = Forgetful(2)
    check_store(path_in(store, "s3://bucket/lake", tmp_path))
    assert store.lost == 0
    store.lost = 1_000
    with pytest.raises(OSError, match="none was told so"):
        check_store(path_in(store, "s3://bucket/lake", tmp_path))
    store.close()


def test_a_store_that_is_away_is_an_os_error(tmp_path: Path) -> None:
    gone = ObjectStore()
    gone.close()
    folder = path_in(gone, "s3://bucket/lake", tmp_path)
    with pytest.raises(OSError, match="s3://bucket/lake"):
        folder.read_bytes()


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"dir": "s3://bucket"}, "such as s3://bucket/prefix"),
        ({"dir": "s3://bucket/a/../b"}, "such as s3://bucket/prefix"),
        ({"dir": "gs://bucket/lake"}, "a folder, or in s3://bucket/prefix"),
        ({"dir": "s3://b/l", "storage": {"endpoint": "http://x:1"}}, "allow_http"),
        ({"dir": "s3://b/l", "storage": {"access_key_id": "a"}}, "both or none"),
        ({"dir": "s3://b/l", "storage": {"bucket": "a"}}, "lake.storage.bucket"),
        ({"dir": "s3://b/l", "storage": "{"}, "JSON object"),
    ],
)
def test_a_place_that_can_not_be_is_refused(values: dict[str, object], problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        load(None, {}, {"lake": values})


def test_the_environment_says_what_the_settings_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "theirs")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "theirs")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "theirs")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    lake = load(None, {}, {"lake": {"dir": "s3:/bucket/lake"}}).lake.dir
    assert isinstance(lake, ObjectPath)
    assert str(lake) == "s3://bucket/lake"
    monkeypatch.delenv("AWS_SESSION_TOKEN")
    assert lake.bucket.access.session_token == "theirs"
    assert (lake.bucket.access.access_key_id, lake.bucket.access.region) == ("theirs", "eu-central-1")
    ours = {"access_key_id": "ours", "secret_access_key": "ours"}
    lake = load(None, {}, {"lake": {"dir": "s3://bucket/lake", "storage": ours}}).lake.dir
    assert isinstance(lake, ObjectPath)
    assert (lake.bucket.access.access_key_id, lake.bucket.access.session_token) == ("ours", "")
