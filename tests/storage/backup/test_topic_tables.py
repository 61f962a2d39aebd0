"""Topics' own tables in backups: they hold none of a log by themselves."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakemq.storage.backup.manifest import BadBackup, Manifest
from lakemq.storage.backup.restore import _check_lake as check_lake  # pyright: ignore[reportPrivateUsage]
from lakemq.storage.disk.files import Files
from lakemq.storage.lake.delta_log import APPLICATION, OF_TOPIC
from lakemq.storage.lake.heal import heal
from lakemq.storage.lake.log_marks import append_identifiers, log_identifier
from lakemq.storage.lake.progress import read_identifiers, read_progress


def _make(lake: Path, name: str, progress: str) -> Path:
    write_deltalake(str(lake / name), pa.table({"x": [1]}))
    append_identifiers(lake / name, {progress: 5, log_identifier("broker-a", "log"): 1})
    return lake / name


def test_a_log_fits_a_topics_table_that_is_behind_where_it_begins(tmp_path: Path) -> None:
    manifest = Manifest("log", first_position=10, next_position=20, begun_ms=0)
    table = _make(tmp_path / "lake", "topic_orders", OF_TOPIC + "life-broker-a")
    check_lake(tmp_path / "lake", manifest, Files(), tmp_path)
    assert (read_progress(table).held, read_progress(table).logs["broker-a"].log_id) == ({}, "log")
    assert read_identifiers(table)[1][OF_TOPIC + "life-broker-a"] == 5
    _make(tmp_path / "lake", "messages", APPLICATION + "broker-a")
    with pytest.raises(BadBackup, match="messages holds the log up to 5"):
        check_lake(tmp_path / "lake", manifest, Files(), tmp_path)


def test_what_is_torn_of_a_topics_table_is_taken_back_whatever_the_logs_have(tmp_path: Path) -> None:
    table = _make(tmp_path, "topic_orders", OF_TOPIC + "life-broker-a")
    last = max((table / "_delta_log").glob("*.json"))
    last.write_bytes(last.read_bytes()[:40])
    assert "is put back to version 0" in "".join(heal(tmp_path, {APPLICATION + "broker-a": 1_000}))
    assert read_identifiers(table) == (0, {})
