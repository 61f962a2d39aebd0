"""The lake query after a power cut that Spark's own files did not survive."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lakemq.jobs.tables.tables import TABLES
from lakemq.storage.lake.certain import CertainLake
from lakemq.storage.lake.intact import fault_of, sidecar_of
from lakemq.storage.lake.proof_mark import FOLDER, read_marks
from lakemq.testing import start_gateway
from tests.jobs.lake.test_lake_query import Scene
from tests.jobs.lake_checks import broker_of


def last_entry(table: Path) -> Path:
    return max((table / "_delta_log").glob("*.json"))


def last_file(table: Path) -> Path:
    return max(table.rglob("part-*.parquet"), key=lambda path: path.stat().st_mtime_ns)


def cut(path: Path) -> None:
    """What was written last of it never came to disk; what Spark noted of its checksum did."""
    os.truncate(path, path.stat().st_size // 2)


DAMAGES: list[tuple[str, Callable[[Path], None]]] = [
    ("messages", lambda table: last_file(table).unlink()),
    ("consume_queue", lambda table: cut(last_file(table))),
    ("message_index", lambda table: cut(last_entry(table))),
    ("scheduled", lambda table: last_entry(table).unlink()),
    ("transactions", lambda table: os.truncate(last_entry(table), 0)),
]


def test_after_power_cuts_between_any_two_steps_every_message_is_once_in_each_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Progress was read from an entry whose Parquet was gone, and those rows were skipped for ever; a
    half-written entry was a loop of restarts."""
    lake = tmp_path / "lake"
    with start_gateway(tmp_path / "log", lake__dir=lake) as gateway:
        scene = Scene(spark, gateway, lake)
        scene.produce(10)
        scene.compact()
        proved = (lake / FOLDER / "proved.json").read_bytes()
        assert set(read_marks(lake)) == {table.name for table in TABLES}
        before = {table.name: DeltaTable(str(table.path(lake))).version() for table in TABLES}
        scene.produce(20)
        scene.compact()
        (lake / FOLDER / "proved.json").write_bytes(proved)  # the cut came before the second batch was proved
        for name, damage in DAMAGES:
            damage(lake / name)
        scene.produce(5)
        scene.compact()
        scene.check()
        end = broker_of(gateway.url)["max_position"]
        assert CertainLake(lake, "broker-a").look() == (end, None)
        for name, version in before.items():
            assert DeltaTable(str(lake / name)).version() > version
        assert list((lake / FOLDER / "set-aside").rglob("*.json"))


@pytest.mark.parametrize("byte", [5, 500, -20])
def test_spark_notes_checksums_by_which_every_lost_byte_is_found(
    spark: SparkSession, tmp_path: Path, byte: int
) -> None:
    spark.range(1000).write.format("delta").save(str(tmp_path / "t"))
    path = last_file(tmp_path / "t")
    assert sidecar_of(path).exists()
    assert fault_of(path) is None
    content = bytearray(path.read_bytes())
    content[byte] ^= 1
    path.write_bytes(content)
    assert "checksum" in str(fault_of(path))
