"""Delta's log on a disk: of any number of writers one makes an entry, and no process is started for it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from lakemq.jobs.session.jars import LOG_STORE
from lakemq.storage.lake.intact import fault_of, sidecar_of
from tests.power.machine import Machine, why_not

WRITERS = 4
ENTRIES = 25


class Store:
    """What Delta takes for a path on a disk, in the session's JVM."""

    def __init__(self, spark: SparkSession) -> None:
        context: Any = spark.sparkContext
        self._jvm = context._jvm
        self._conf = context._jsc.hadoopConfiguration()
        self.made = self._jvm.io.lakemq.LinkingLogStore(self._conf)

    def write(self, path: Path, text: str, overwrite: bool = False) -> bool:
        """False: there is an entry already."""
        lines = self._jvm.java.util.ArrayList()
        for line in text.splitlines():
            lines.add(line)
        try:
            self.made.write(self._path(path), lines.iterator(), overwrite, self._conf)
        except Py4JJavaError as error:
            if "FileAlreadyExistsException" not in str(error):
                raise
            return False
        return True

    def read(self, path: Path) -> list[str]:
        found = self.made.read(self._path(path), self._conf)
        return [found.next() for _ in iter(found.hasNext, False)]

    def _path(self, path: Path) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path.as_uri())


@pytest.fixture(scope="module")
def store(spark: SparkSession) -> Store:
    return Store(spark)


def test_a_table_on_a_disk_is_committed_by_it(spark: SparkSession, tmp_path: Path) -> None:
    table = tmp_path / "table"
    spark.range(3).write.format("delta").save(str(table))
    here: Any = spark
    jvm = here._jvm
    taken = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(here._jsparkSession, str(table)).store()
    path = jvm.org.apache.hadoop.fs.Path(table.as_uri())
    assert taken.getDelegate(path).logStoreImpl().getClass().getName() == LOG_STORE
    entry = table / "_delta_log" / f"{0:020}.json"
    assert sidecar_of(entry).exists()
    assert fault_of(entry) is None


def race(store: Store, folder: Path) -> None:
    """All writers make each entry; one of them does, and its text stands, with its checksums."""
    with ThreadPoolExecutor(WRITERS) as pool:
        for number in range(ENTRIES):
            path = folder / f"{number:020}.json"
            texts = [f'{{"writer": {writer}}}\n' * (writer * 40 + 1) for writer in range(WRITERS)]
            done = list(pool.map(store.write, [path] * WRITERS, texts))
            assert sum(done) == 1
            assert path.read_text() == texts[done.index(True)]
            assert sidecar_of(path).exists()
            assert fault_of(path) is None
            assert "".join(f"{line}\n" for line in store.read(path)) == path.read_text()
    assert len(list(folder.iterdir())) == 2 * ENTRIES, "nothing else is left"


def test_of_many_writers_one_makes_an_entry(store: Store, tmp_path: Path) -> None:
    race(store, tmp_path)


def test_where_the_file_system_has_no_links_one_at_a_time_makes_an_entry(store: Store, tmp_path: Path) -> None:
    """As careful as Delta's own class: it looks first, and renames then."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    with Machine(tmp_path) as machine:
        machine.start(1, LAKEMQ_TEST_NO_LINKS="1")
        entry = machine.data / f"{0:020}.json"
        assert store.write(entry, '{"a": 1}')
        assert not store.write(entry, '{"a": 2}')
        assert (entry.read_text(), fault_of(entry)) == ('{"a": 1}\n', None)
        assert len(list(machine.data.iterdir())) == 2


def test_what_is_replaced_is_read_by_no_checksums_of_before(store: Store, tmp_path: Path) -> None:
    """Such as `_last_checkpoint`, also one that an older lakemq has written."""
    hint = tmp_path / "_last_checkpoint"
    for version in range(3):
        sidecar_of(hint).write_bytes(b"crc\0 of something else")
        assert store.write(hint, f'{{"version": {version}}}', overwrite=True)
        assert store.read(hint) == [f'{{"version": {version}}}']
    assert [path.name for path in tmp_path.iterdir()] == [hint.name]


def test_an_entry_takes_no_checksums_of_one_that_is_gone(store: Store, tmp_path: Path) -> None:
    entry = tmp_path / f"{7:020}.json"
    sidecar_of(entry).write_bytes(b"crc\0\0\0\2\0old!")
    assert store.write(entry, '{"a": 1}')
    assert store.read(entry) == ['{"a": 1}']
    assert fault_of(entry) is None


def test_what_cannot_be_written_leaves_nothing(store: Store, tmp_path: Path) -> None:
    with pytest.raises(Py4JJavaError, match="NoSuchFileException"):
        store.write(tmp_path / "missing" / "entry.json", "{}")
    assert list(tmp_path.iterdir()) == []
