"""`lakemq backup` beside a running gateway, and what `lakemq restore` makes of it."""

from __future__ import annotations

import json
import shutil
import threading
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake

from lakemq.model.errors import LakemqError, LogDamaged
from lakemq.settings import MIB
from lakemq.storage.backup import back_up, restore
from lakemq.storage.backup.log_part import missing_parts
from lakemq.storage.backup.manifest import BROKER, NAME, BadBackup, read_manifest, refuse_half_restored
from lakemq.storage.lake.log_marks import log_identifier
from lakemq.storage.lake.progress import read_progress
from lakemq.storage.mend.verify import verify_log
from lakemq.storage.state.log_state import LogState
from lakemq.storage.state.sinks import Sink
from lakemq.testing import FaultyFiles, start_gateway
from tests.gateway.cold.lakes import Lake
from tests.gateway.http_client import connect, produce, pull_all, put_topic
from tests.gateway.sinks.asking import commit, put_part
from tests.storage.backup.shortened import make_shortened
from tests.storage.conftest import MakeLog
from tests.storage.harness import LogHarness

OPTIONS: dict[str, Any] = {"storage__segment_bytes": 1024 * 1024, "storage__flush_interval_ms": 20}
BODY = "x" * 2_000


def places(http: httpx.Client, topic: str) -> dict[str, tuple[int, int, int]]:
    """Where each message of a topic is, by its body."""
    found = pull_all(http, topic)
    assert len({each["body"] for each in found}) == len(found)
    return {each["body"]: (each["queue_id"], each["queue_offset"], each["position"]) for each in found}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A backup made beside a gateway under load, and what had been acknowledged when it began."""
    folder = tmp_path_factory.mktemp("backup")
    data, lake = folder / "data", folder / "lake"
    with start_gateway(data, lake__dir=lake, **OPTIONS) as gateway, connect(gateway) as http:
        put_topic(http, "orders", 2)
        put_topic(http, "sunk", 1)
        put_part(http, "s", 0, "p", ["sunk-1", "sunk-2"], topic="sunk")
        commit(http, "s", 0, "p")
        for number in range(10):
            produce(http, "orders", *(f"{number}.{each}.{BODY}" for each in range(100)), ack="sync")
        content = {"offsets": [{"topic": "orders", "queue_id": 0, "offset": 7}]}
        http.put("/v1/groups/g/offsets", json=content).raise_for_status()
        tables = Lake(lake, gateway.url)
        tables.compact(http)
        tables.close()
        produce(http, "orders", f"last.{BODY}", ack="sync")
        known = {"orders": places(http, "orders"), "sunk": places(http, "sunk")}
        over = threading.Event()

        def load() -> None:
            with connect(gateway) as other:
                number = 0
                while not over.is_set():
                    produce(other, "orders", f"meanwhile.{number}.{BODY}")
                    number += 1

        thread = threading.Thread(target=load)
        thread.start()
        try:
            back_up(data, lake, folder / "copy", "broker-a")
        finally:
            over.set()
            thread.join()
    return folder / "copy", known


def test_a_restored_broker_has_all_that_was_on_disk_at_its_place(
    made: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    folder, known = made
    data, lake = tmp_path / "data", tmp_path / "lake"
    restored = restore(folder, data, lake)
    assert verify_log(data).sound
    assert restored.log_id != restored.manifest.log_id
    tables = {table.name for table in restored.manifest.tables}
    assert tables >= {"messages", "consume_queue", "message_index"}
    assert {read_progress(lake / name).logs["broker-a"].log_id for name in tables} == {restored.log_id}
    with start_gateway(data, lake__dir=lake, **OPTIONS) as gateway, connect(gateway) as http:
        assert http.get("/v1/broker").json()["log_id"] == restored.log_id
        for topic, wanted in known.items():
            found = places(http, topic)
            assert {body: found.get(body) for body in wanted} == wanted
        offsets = http.get("/v1/groups/g/offsets", params={"topic": "orders"}).json()["offsets"]
        assert offsets == [{"topic": "orders", "queue_id": 0, "offset": 7}]
        assert put_part(http, "s", 1, "p", ["sunk-3"], topic="sunk").is_success
        assert commit(http, "s", 1, "p").is_success
        (after,) = produce(http, "orders", "after", ack="sync")
        # Beyond all that the old broker may have told of since.
        assert after["position"] >= restored.manifest.next_position + 2**32 - 1


def test_nothing_is_restored_over_what_is_there(made: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/mine").write_text("kept")
    with pytest.raises(BadBackup, match="is not empty"):
        restore(made[0], tmp_path / "data", tmp_path / "lake")
    with pytest.raises(BadBackup, match="is not empty"):
        restore(made[0], tmp_path / "new", tmp_path / "data")
    assert [path.name for path in tmp_path.rglob("*")] == ["data", "mine"]


def test_a_restore_that_ends_anywhere_leaves_no_folder_that_passes_for_a_new_broker(
    made: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    files = FaultyFiles()
    files.room_bytes = 0  # the first file of the lake can't be copied
    with pytest.raises(OSError, match="No space left"):
        restore(made[0], tmp_path / "data", tmp_path / "lake", files)
    with pytest.raises(BadBackup, match="did not come to its end: empty that folder and its lake's"):
        refuse_half_restored(files, tmp_path / "data")


@pytest.mark.parametrize("part", ["commitlog", "lake"])
def test_a_damaged_or_missing_file_is_found_before_anything_is_written(
    made: tuple[Path, dict[str, Any]], part: str, tmp_path: Path
) -> None:
    folder = shutil.copytree(made[0], tmp_path / "copy")
    file = sorted(path for path in (folder / part).rglob("*") if path.is_file())[-1]
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(BadBackup, match=file.name):
        restore(folder, tmp_path / "data", tmp_path / "lake")
    file.unlink()
    with pytest.raises(BadBackup, match=file.name):
        restore(folder, tmp_path / "data", tmp_path / "lake")
    assert not (tmp_path / "data").exists()


def test_a_manifest_that_is_none_is_refused(made: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    with pytest.raises(BadBackup, match="no backup"):
        restore(tmp_path, tmp_path / "data", tmp_path / "lake")
    content = json.loads((made[0] / NAME).read_bytes())
    content["files"][0]["path"] = "../elsewhere"
    (tmp_path / NAME).write_text(json.dumps(content))
    with pytest.raises(BadBackup, match="elsewhere"):
        restore(tmp_path, tmp_path / "data", tmp_path / "lake")
    (tmp_path / NAME).write_text(json.dumps(content | {"format": 2}))
    with pytest.raises(BadBackup, match="format 2"):
        restore(tmp_path, tmp_path / "data", tmp_path / "lake")
    (tmp_path / NAME).write_text(json.dumps(content | {"moons": 2}))
    with pytest.raises(BadBackup, match="says moons, as that of a newer lakemq"):
        restore(tmp_path, tmp_path / "data", tmp_path / "lake")


def test_a_manifest_says_what_a_lakemq_of_before_reads(made: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    """It refused the whole backup for a key that it didn't know."""
    content = json.loads((made[0] / NAME).read_bytes())
    of_before = {"log_id", "first_position", "next_position", "begun_ms", "tables", "files", "elsewhere", "format"}
    assert content.keys() == of_before
    assert read_manifest(made[0]).broker == "broker-a"
    for said, broker in (({}, ""), ({"broker": "broker-b"}, "broker-b")):  # as there were some meanwhile
        (tmp_path / NAME).write_text(json.dumps(content | said))
        assert read_manifest(tmp_path).broker == broker


def test_a_backup_begins_in_a_new_folder_and_needs_a_log(tmp_path: Path) -> None:
    with pytest.raises(LakemqError, match="no log"):
        back_up(tmp_path / "data", tmp_path / "lake", tmp_path / "copy", "broker-a")
    (tmp_path / "data/commitlog").mkdir(parents=True)
    with pytest.raises(BadBackup, match="not empty"):
        back_up(tmp_path / "data", tmp_path / "lake", tmp_path, "broker-a")


def test_a_part_that_the_log_will_store_must_be_in_the_copy(tmp_path: Path) -> None:
    state = LogState()
    state.sinks.by_name["s"] = Sink(3, ["a", "b"])
    (tmp_path / "1.part").write_bytes(b'00000000 {"sink":"s","batch":3,"name":"a"}\n')
    (tmp_path / "2.part").write_bytes(b"torn")
    assert missing_parts(state, tmp_path) == ["s/3/b"]


def test_damage_that_nobody_has_read_ends_a_backup(make_log: MakeLog, tmp_path: Path) -> None:
    """It was copied, and found by the restore."""
    harness = make_log()
    harness.put_topic("a")
    harness.roll("a")
    harness.close()
    path = harness.segment_paths()[0]
    content = bytearray(path.read_bytes())
    for damaged in (content[:-8], content[:500_000] + b"?" + content[500_001:]):
        path.write_bytes(damaged)
        with pytest.raises(LogDamaged, match=rf"{path.name} is damaged at offset \d+: .* storage\.verify_ms"):
            back_up(tmp_path, tmp_path / "none", tmp_path / f"copy-{len(damaged)}", "broker-a")


def test_what_was_dropped_is_known_to_a_restored_log(make_log: MakeLog, tmp_path: Path) -> None:
    harness = make_log(when_full="drop_oldest", log_bytes_max=2 * MIB)
    harness.put_topic("a")
    while len(harness.log.segments) < 4:
        harness.roll("a")
    harness.settle()
    harness.log.retain()
    harness.log.retention.drop(harness.log.state)
    harness.log.retain()
    before, messages = harness.log.retention.dropped.ranges, harness.read_log()
    harness.close()
    copy = tmp_path / "copy"
    back_up(tmp_path, tmp_path / "none", copy, "broker-a")
    restore(copy, tmp_path / "restored", tmp_path / "none")
    restored = LogHarness(tmp_path / "restored").open()
    assert (restored.log.retention.dropped.ranges, restored.read_log()) == (before, messages)
    assert restored.log.retention.held_position == 0 < restored.log.min_position
    restored.crash()


def write_table(lake: Path, broker: str, held: int, log_id: str) -> None:
    """A table that holds so much of that log."""
    said = [Transaction(f"lakemq-lake-{broker}", held), Transaction(log_identifier(broker, log_id), 1)]
    rows, held_by = pa.table({"position": [0]}), CommitProperties(app_transactions=said)
    write_deltalake(str(lake / "messages"), rows, commit_properties=held_by)


def test_a_log_that_needs_its_lake_is_not_backed_up_without_it(tmp_path: Path) -> None:
    """A backup beside a folder that was not mounted succeeded, and lacked all that was older."""
    first = make_shortened(tmp_path)
    lake, copies = tmp_path / "lake", (tmp_path / f"copy-{number}" for number in count())
    with pytest.raises(BadBackup, match=rf"begins with position {first}: .* {lake} has none of it"):
        back_up(tmp_path, lake, next(copies), "broker-a")
    held = CommitProperties(app_transactions=[Transaction("lakemq-lake-broker-a", first)])
    write_deltalake(str(lake / "messages"), pa.table({"position": [0]}), commit_properties=held)
    with pytest.raises(BadBackup, match=r"only has broker-a \(--broker-name\)"):
        back_up(tmp_path, lake, next(copies), "broker-b")
    made = back_up(tmp_path, lake, tmp_path / "whole", "broker-a").manifest
    assert [(table.name, table.held) for table in made.tables] == [("messages", {"broker-a": first})]
    with pytest.raises(BadBackup, match=r"the backup that --lake-in names only has broker-a"):
        back_up(tmp_path, lake, next(copies), "broker-b", lake_in=tmp_path / "whole")
    assert back_up(tmp_path, lake, next(copies), "broker-a").missing_below == 0
    alone = back_up(tmp_path, None, tmp_path / "alone", "broker-a")
    assert (alone.manifest.first_position, alone.manifest.tables, alone.missing_below) == (first, [], first)
    assert restore(tmp_path / "alone", tmp_path / "restored", tmp_path / "new").missing_below == first
    assert restore(tmp_path / "whole", tmp_path / "restored-2", tmp_path / "new").missing_below == 0


def test_a_log_is_not_backed_up_with_the_lake_of_another(tmp_path: Path) -> None:
    """It was, and of what was restored nobody had the older messages."""
    first, lake, other = make_shortened(tmp_path), tmp_path / "lake", str(UUID(int=1))
    write_table(lake, "broker-a", first, other)
    own = back_up(tmp_path, None, tmp_path / "alone", "broker-a").manifest.log_id
    refused = rf"lake/messages holds another log of broker-a, {other}, and not {own}: name the lake .*lake adopt"
    with pytest.raises(BadBackup, match=refused):
        back_up(tmp_path, lake, tmp_path / "copy", "broker-a")
    assert not (tmp_path / "copy" / NAME).exists()
    write_table(tmp_path / "both", "broker-a", first, other)
    with pytest.raises(BadBackup, match=rf"both/messages holds another log of broker-a, {other}, .*a new folder as"):
        restore(tmp_path / "alone", tmp_path / "restored", tmp_path / "both")
    assert not (tmp_path / "restored").exists()


def test_a_backup_of_a_log_and_the_lake_of_another_is_not_restored(tmp_path: Path) -> None:
    """As such as were made before that was refused."""
    first, lake, whole, other = make_shortened(tmp_path), tmp_path / "lake", tmp_path / "whole", str(UUID(int=1))
    own = back_up(tmp_path, None, tmp_path / "alone", "broker-a").manifest.log_id
    write_table(lake, "broker-a", first, own)
    back_up(tmp_path, lake, whole, "broker-a")
    content = json.loads((whole / NAME).read_bytes())
    (whole / NAME).write_text(json.dumps(content | {"log_id": other}))
    with pytest.raises(BadBackup, match=rf"holds another log of broker-a, {own}, and not {other}: the backup was made"):
        restore(whole, tmp_path / "restored", tmp_path / "new")
    assert not (tmp_path / "restored").exists()
    (whole / BROKER).unlink()  # as those that were made before say nothing of it
    (whole / NAME).write_text(json.dumps(content))
    assert restore(whole, tmp_path / "restored", tmp_path / "new").missing_below == 0
    with pytest.raises(BadBackup, match=rf"whole/lake/messages holds another log of broker-a, {own}"):
        back_up(tmp_path / "restored", None, tmp_path / "later", "broker-a", lake_in=whole)
