"""A topic's own table that is deleted and made anew, or erased from, while the jobs write it: no row that went comes
back."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from lakemq.jobs.lake.topic_tables_kept import TopicTablesKept
from lakemq.jobs.tables import merger as merger_module
from lakemq.jobs.tables.driver import Driver
from lakemq.jobs.tables.merger import Overtaken, TableMerger
from lakemq.jobs.tables.topic_table import layout_of_topic_table
from lakemq.jobs.tables.turns import KEEPING
from lakemq.model.merging import Limits
from lakemq.model.topic_table import table_name
from tests.jobs.lake.test_topic_tables_kept import Scene, opened, rows_or_none, wait_for
from tests.jobs.order_schema import ORDER


@pytest.fixture(scope="module")
def shared(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with opened(spark, tmp_path_factory.mktemp("deleted-topic-tables")) as made:
        yield made


@pytest.fixture
def scene(shared: Scene) -> Iterator[Scene]:
    yield shared
    shared.forget()


def new_table(scene: Scene, files: int) -> tuple[str, Path, TopicTablesKept]:
    """A topic's, with a row in each file; and its keeper, which goes on knowing it."""
    topic = scene.new_topic()
    scene.put_schema(topic, ORDER, table=True)
    keeper = scene.keeper()
    for number in range(files):
        come(scene, keeper, topic, number)
    return topic, scene.lake / table_name(topic), keeper


def come(scene: Scene, keeper: TopicTablesKept, topic: str, number: int) -> None:
    scene.produce(topic, {"id": number, "name": "Ann"})
    scene.compact()
    while keeper.round():
        pass


def merger_of(scene: Scene, table: Path, stop: Callable[[], bool] = lambda: False) -> TableMerger:
    driver = Driver(scene.spark, scene.settings.lake)
    return TableMerger(scene.spark, layout_of_topic_table(table), scene.lake, Limits(2, 1 << 30), stop, driver)


def files_in(table: Path) -> set[str]:
    return {each.name for each in table.glob("*.parquet")}


@pytest.mark.parametrize("commits", [1, 5])
def test_a_merge_that_had_read_a_deleted_table_is_not_committed_to_the_one_made_anew(
    scene: Scene, commits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, table, _ = new_table(scene, 2)
    begins: list[Callable[[], Any]] = [lambda: anew(scene, topic, commits)]
    real = merger_module.merge_files

    def made_anew_meanwhile(*said: Any, **more: Any) -> Any:
        done = real(*said, **more)
        kept = said[1].read_bytes()  # a file that is being written outlives its folder
        while begins:
            begins.pop()()
        said[1].write_bytes(kept)
        return done

    monkeypatch.setattr(merger_module, "merge_files", made_anew_meanwhile)
    with pytest.raises(Overtaken):
        merger_of(scene, table).step()
    rows = [(number,) for number in range(2)] + [(9,)] * (commits - 1)
    assert scene.rows(topic, "id") == rows
    named = {Path(each).name for each in DeltaTable(str(table)).file_uris()}
    assert files_in(table) == named, "nothing is left of the old table"


def anew(scene: Scene, topic: str, commits: int) -> None:
    """The table is deleted, and another has so many commits with rows."""
    shutil.rmtree(scene.lake / table_name(topic))
    keeper = scene.keeper()
    while keeper.round():
        pass
    for _ in range(commits - 1):
        come(scene, keeper, topic, 9)


@pytest.mark.parametrize("files", [0, 2])
def test_a_table_that_is_deleted_while_the_jobs_keep_it_is_made_anew_with_all_rows_once(
    scene: Scene, files: int
) -> None:
    topic, table, keeper = new_table(scene, files)
    while keeper.round():
        pass
    shutil.rmtree(table)
    come(scene, keeper, topic, files)
    come_back(scene, keeper, topic, files + 1)
    come(scene, keeper, topic, files + 1)
    assert scene.rows(topic, "id") == [(number,) for number in range(files + 2)]


def test_who_knew_a_deleted_table_writes_each_row_once_to_the_one_that_another_made_anew(scene: Scene) -> None:
    topic, _, keeper = new_table(scene, 2)
    anew(scene, topic, 1)
    come(scene, keeper, topic, 2)
    come_back(scene, keeper, topic, 3)
    assert scene.rows(topic, "id") == [(number,) for number in range(3)]


def come_back(scene: Scene, keeper: TopicTablesKept, topic: str, count: int) -> None:
    def is_there() -> bool:
        while keeper.round():
            pass
        return len(rows_or_none(scene, topic)) == count

    wait_for(is_there, "the table isn't made anew")


def test_an_erasure_that_begins_during_a_merge_ends_after_it_and_no_erased_row_is_left(scene: Scene) -> None:
    topic, table, _ = new_table(scene, 2)
    where = {"where": f"topic = '{topic}' AND body_text(body) LIKE '%: 0,%'"}
    with ThreadPoolExecutor(1) as pool:
        erasures: list[Future[dict[str, Any]]] = []

        def stop() -> bool:
            if not erasures:
                erasures.append(pool.submit(scene.run, "erase", where))
                wait_for(lambda: KEEPING.locked() or erasures[0].done(), "the erasure doesn't come to the table")
            return False

        assert merger_of(scene, table, stop).step()
        erased = erasures[0].result()
    assert erased["tables"][table.name] == 1
    assert scene.rows(topic, "id") == [(1,)]
    named = {Path(each).name for each in DeltaTable(str(table)).file_uris()}
    assert files_in(table) == named, "the files that held it are gone, the merge's too"


def test_rows_that_another_process_deletes_during_a_merge_or_as_it_commits_stay_deleted(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, table, keeper = new_table(scene, 2)
    deleted: list[int] = []

    def delete(number: int) -> None:
        if number not in deleted:  # it knows nothing of whose turn it is
            deleted.append(number)
            scene.spark.sql(f"DELETE FROM delta.`{table}` WHERE id = {number}").collect()

    with pytest.raises(Overtaken):
        merger_of(scene, table, lambda: delete(0) is not None).step()
    assert scene.rows(topic, "id") == [(1,)]
    assert all(pq.read_metadata(table / each).num_rows < 2 for each in files_in(table)), "what was merged is gone"
    come(scene, keeper, topic, 2)
    real = merger_module.action_of
    monkeypatch.setattr(merger_module, "action_of", lambda *said: (delete(1), real(*said))[1])
    with pytest.raises(Py4JJavaError, match="ConcurrentDelete"):
        merger_of(scene, table).step()
    assert scene.rows(topic, "id") == [(2,)]
