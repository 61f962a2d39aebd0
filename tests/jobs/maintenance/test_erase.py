"""`lakemq erase`: gone from the log and from every file, and nothing else is."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakemq.jobs.log_client import LogClient
from lakemq.jobs.maintenance import erase, erased_files
from lakemq.jobs.maintenance.erased_files import has_begun, set_begun
from lakemq.jobs.maintenance.owed_erasures import owe, owed
from lakemq.jobs.maintenance.places import PLACES
from lakemq.jobs.maintenance.runs import read_runs
from lakemq.jobs.maintenance.work import Work
from lakemq.jobs.tables.holes import ERASED, Hole, append_holes, read_holes
from lakemq.jobs.tables.schemas import HOLES
from lakemq.jobs.tables.tables import MESSAGE_INDEX, MESSAGES
from lakemq.model.errors import LakemqError
from lakemq.storage.lake.delta_log import APPLICATION
from lakemq.storage.lake.log_marks import LogMark, append_identifiers, log_identifier, replaced
from lakemq.storage.lake.merge_files import scratch_of
from lakemq.storage.lake.progress import read_progress
from lakemq.storage.lake.proof_mark import read_marks
from tests.gateway.http_client import connect, produce, put_topic
from tests.gateway.sinks.asking import commit, put_part
from tests.jobs.changed_rows import append_rows, delete_rows, put_into_one_file
from tests.jobs.lake_checks import broker_of, rows_of
from tests.jobs.maintenance.scene import Scene

SECRET = "Erika-Mustermann-17"
CHAIN = 10
"""So many copies of copies: once no more than eight were followed."""


def erased_rows(scene: Scene) -> int:
    return sum(SECRET in (key or "") for _, key in rows_of(scene.lake, "message_index", ["position", "key"]))


def files_with(folder: Path, text: str) -> list[str]:
    """Files that hold the text as it is: bodies here are not compressible, tables are by Snappy."""
    return [str(file) for file in folder.rglob("*") if text.encode() in content_of(file)]


def content_of(file: Path) -> bytes:
    """Nothing of what is no file, or none any more: the gateway puts files in each other's place."""
    try:
        return file.read_bytes() if file.is_file() else b""
    except FileNotFoundError:
        return b""


def bodies_of(http: httpx.Client, topic: str) -> list[str]:
    found: list[str] = []
    for queue in http.get(f"/v1/topics/{topic}").json()["queues"]:
        path = f"/v1/topics/{topic}/queues/{queue['queue_id']}/messages"
        found += [message["body"] for message in http.get(path, params={"offset": 0, "max": 1000}).json()["messages"]]
    return sorted(found)


def test_what_is_erased_is_in_no_file_and_all_else_is_where_it_was(scene: Scene) -> None:
    with connect(scene.gateway) as http:
        for at in range(2):
            produce(http, "users", {"body": f"{SECRET} {at}", "keys": [SECRET, "x"]}, {"body": f"kept {at}"})
            scene.compact()
        produce(http, "users", {"body": f"{SECRET} later", "keys": [SECRET], "delay_ms": 1})
        while http.get("/v1/routing").json()["delay"]["waiting"]:
            time.sleep(0.05)
        scene.compact()
        for table in ("messages", "message_index"):  # older versions have them in other files
            put_into_one_file(scene.lake / table)
        planned = scene.run("erase", {"where": f"key = '{SECRET}'", "dry_run": True})
        assert planned.error is None
        assert planned.detail["topics"] == {"SCHEDULE_TOPIC_XXXX": 1, "users": 3}
        done = scene.run("erase", {"where": f"key = '{SECRET}'"})
        assert (done.error, done.detail["messages"]) == (None, 4)
        assert done.detail["log"] == {"erased": 4, "not_there": 0}
        assert done.detail["tables"]["messages"] == done.detail["tables"]["consume_queue"] == 4
        assert done.detail["tables"]["message_index"] == 6
        assert done.detail["tables"]["scheduled"] == 1
        assert bodies_of(http, "users") == ["kept 0", "kept 1"]
    scene.check()
    assert erased_rows(scene) == 0
    for table in ("messages", "message_index", "scheduled"):
        there = [file for file in (scene.lake / table).rglob("part-*.parquet") if pq.read_metadata(file).num_rows]
        assert all(file.name in str(scene.files(table)) for file in there)
    assert len(done.detail["waits"]) == 1
    assert files_with(scene.lake.parent / "log", SECRET) == []
    assert SECRET not in json.dumps([run.as_json() for run in read_runs(scene.lake)])
    assert scene.run("verify").detail["findings"] == []
    again = scene.run("erase", {"where": f"key = '{SECRET}'"})
    assert again.detail == {"messages": 0, "topics": {}}


def test_why_a_message_failed_goes_with_it(scene: Scene) -> None:
    with connect(scene.gateway) as http:
        sent = produce(http, "failed", *({"body": text, "keys": [text]} for text in ("gone", "kept")))
        texts = {"gone": "no account of Heidi-Musterfrau-17", "kept": "no account of Otto"}
        nacks = [
            {"message_id": each["message_id"], "delay_level": -1, "reason": texts[text]}
            for each, text in zip(sent, texts, strict=True)
        ]
        nacks += [{"message_id": sent[0]["message_id"], "delay_level": 1, "reason": {"class": "Heidi-Musterfrau-17"}}]
        for group, some in (("dead", nacks[:2]), ("later", nacks[2:])):
            http.post(f"/v1/groups/{group}/nacks", json={"messages": some}).raise_for_status()
        while http.get("/v1/routing").json()["delay"]["waiting"]:
            time.sleep(0.05)
        scene.compact()
        of_nacks = scene.run("erase", {"where": "topic = 'RMQ_SYS_NACK_TOPIC'", "dry_run": True})
        assert of_nacks.detail["messages"] == 0, "nacks go with their messages, not these with their nacks"
        done = scene.run("erase", {"where": "key = 'gone'"})
        assert done.error is None
        kinds = {"%DLQ%dead": 1, "%RETRY%later": 1, "RMQ_SYS_NACK_TOPIC": 2, "SCHEDULE_TOPIC_XXXX": 1, "failed": 1}
        assert done.detail["topics"] == kinds
        assert bodies_of(http, "%25DLQ%25dead") == ["kept"]
    assert files_with(scene.lake.parent / "log", "Heidi-Musterfrau-17") == []
    rows = rows_of(scene.lake, "messages", ["position", "properties"])
    why = [dict(each or {}).get("lakemq_failure_text") for _, each in rows]
    assert [text for text in why if text] == [texts["kept"]] * 2, "in its nack, and its dead letter"
    assert scene.run("verify").detail["findings"] == []


def test_an_erasure_that_was_killed_is_finished_by_the_next(scene: Scene) -> None:
    scene.produce(3)
    with connect(scene.gateway) as http:
        (sent,) = produce(http, "killed", {"body": "x", "keys": ["killed"]})
        scene.compact()
        assert http.post("/v1/log/erasures", json={"positions": [sent["position"]]}).json()["erased"] == 1
        scene.compact()  # the erasure's record: nothing is appended while rows are deleted
    append_holes(scene.lake, "broker-a", [Hole(sent["position"], sent["position"])], ERASED)
    for table in ("messages", "consume_queue", "message_index"):
        delete_rows(scene.lake / table, position=sent["position"])
    set_begun(scene.lake, begun=True)
    done = scene.run("erase", {"where": "key = 'killed'"})
    assert done.detail["messages"] == 0
    assert done.detail["files"]["messages"]["files"] >= 1
    assert not has_begun(scene.lake)


def test_rows_leave_messages_once_all_other_deletes_are_on_disk(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut brought rows of `message_index` back, and the same condition found no message any more. And messages
    leave the log once its holes are on disk: they were lost for whoever looked then."""
    real_begun, real_delete = erase.set_begun, erase._delete  # pyright: ignore[reportPrivateUsage]
    real_erase = LogClient.erase
    deleted: dict[str, int] = {}
    on_disk: dict[str, int] = {}
    holes: list[tuple[int, int]] = []

    def erase_in_log(client: LogClient, positions: Sequence[int]) -> int:
        if positions:
            holes.append((read_progress(scene.lake / HOLES).version, read_marks(scene.lake)[HOLES].version))
        return real_erase(client, positions)

    def alone(lake: Path, *, begun: bool) -> None:
        if begun:
            scene.stop()  # the lake query brings tables to disk too
        real_begun(lake, begun=begun)

    def delete(work: Work, path: Path, *given: Any) -> int:
        if path.name == "messages":
            on_disk.update({name: mark.version for name, mark in read_marks(scene.lake).items()})
        count = real_delete(work, path, *given)
        deleted[path.name] = read_progress(path).version
        return count

    with connect(scene.gateway) as http:
        produce(http, "cut", {"body": "x", "keys": ["cut"]})
    scene.compact()
    monkeypatch.setattr(erase, "set_begun", alone)
    monkeypatch.setattr(erase, "_delete", delete)
    monkeypatch.setattr(LogClient, "erase", erase_in_log)
    scratch_of(scene.lake).mkdir(parents=True, exist_ok=True)
    (scratch_of(scene.lake) / "left.parquet").write_text("cut")
    done = scene.run("erase", {"where": "key = 'cut'"})
    scene.start()
    ((written, proved),) = holes
    assert written == proved
    assert (done.detail["parts_of_merges"], list(scratch_of(scene.lake).iterdir())) == (1, [])
    assert (done.error, done.detail["tables"]["messages"], done.detail["tables"]["message_index"]) == (None, 1, 1)
    assert list(deleted)[-1] == "messages"
    others = {name: version for name, version in deleted.items() if name != "messages"}
    assert others == {name: on_disk[name] for name in others}


def test_what_is_sent_again_while_it_is_erased_goes_too(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    real = erase.erase_in_log
    with connect(scene.gateway) as http:
        sent = produce(http, "again-users", {"body": SECRET, "keys": [SECRET]}, {"body": "kept"})
        copy = {"body": pa.array([SECRET.encode()]), "origin_message_id": pa.array([sent[0]["message_id"]])}
        put_topic(http, "again")
        put_part(http, "replay", 0, "a", copy, topic="again")
        scene.compact()

        def late(*given: Any) -> int:
            commit(http, "replay", 0, "a")  # again does nothing
            return real(*given)

        monkeypatch.setattr(erase, "erase_in_log", late)
        done = scene.run("erase", {"where": f"key = '{SECRET}'"})
        assert (done.error, done.detail["topics"]) == (None, {"again": 1, "again-users": 1})
        assert done.detail["log"] == {"erased": 2, "not_there": 0}
        assert (bodies_of(http, "again-users"), bodies_of(http, "again")) == (["kept"], [])
    assert files_with(scene.lake.parent / "log", SECRET) == []


def put_rows_of(scene: Scene, broker: str, rows: list[dict[str, Any]], *, has_mark: bool = True) -> None:
    """In `messages`, as a broker left them that the jobs no longer follow; its log has its name as its id, or no mark
    says which it is."""
    filled = [
        {"broker": broker, "topic": "left", "queue_id": 0, "queue_offset": at, "position": at, "body": b"x"}
        | {"message_id": f"{broker}.{at}", "keys": [], "properties": []}
        | row
        for at, row in enumerate(rows)
    ]
    identifiers = {APPLICATION + broker: len(rows)} | ({log_identifier(broker, broker): 1} if has_mark else {})
    append_rows(scene.lake / "messages", pa.Table.from_pylist(filled, MESSAGES.schema), identifiers)


def test_what_brokers_left_that_are_no_longer_followed_goes_too(scene: Scene) -> None:
    """And what was made of it, step by step: each copy names the one before as its original. And what an earlier
    erasure couldn't erase in this broker's log, while the broker was away."""
    with connect(scene.gateway) as http:
        (late, _) = produce(http, "owed", "late", {"body": "kept", "keys": ["kept"]})
        due = pa.Table.from_pylist([{"broker": "broker-a", "position": late["position"], "topic": "owed"}], PLACES)
        owe(scene.lake, {"broker-a": broker_of(scene.gateway.url)["log_id"]}, due)
    scene.stop()  # a query ends when somebody else sets how far a table is
    for broker in ("broker-z", "broker-a~11111111"):
        put_rows_of(scene, broker, [{"keys": ["left-17"]}, {"keys": ["kept"]}])
    chain = ["broker-z.0", *(f"broker-x.{at}" for at in range(1, CHAIN))]
    put_rows_of(scene, "broker-x", [{"keys": ["kept"]}, *({"origin_message_id": each} for each in chain)])
    put_rows_of(scene, "broker-y", [{"keys": ["kept"]}])
    put_rows_of(scene, "broker-w", [{"keys": ["left-17"]}, {"keys": ["kept"]}], has_mark=False)
    scene.start()
    done = scene.run("erase", {"where": "key = 'left-17'"})
    went = 3 + CHAIN + 1
    assert (done.error, done.detail["messages"], done.detail["tables"]["messages"]) == (None, went, went)
    assert (done.detail["log"], done.detail["logs_asked_later"]) == ({"erased": 1, "not_there": 0}, {"broker-a": 1})
    with connect(scene.gateway) as http:
        assert bodies_of(http, "owed") == ["kept"]
    derived = [row for name in ("consume_queue", "message_index") for row in rows_of(scene.lake, name, ["position"])]
    assert (late["position"],) not in derived
    not_asked = {"broker-a~11111111": 1, "broker-w": 1, "broker-x": CHAIN, "broker-y": 0, "broker-z": 1}
    assert done.detail["logs_not_asked"] == not_asked
    left = [row[:2] for row in rows_of(scene.lake, "messages", ["broker", "position", "topic"]) if row[2] == "left"]
    assert left == [("broker-a~11111111", 1), ("broker-w", 1), ("broker-x", 0), ("broker-y", 0), ("broker-z", 1)]
    assert done.detail["logs_not_owed"] == {"broker-w": 1}, "nobody knows which log it had"
    assert read_holes(scene.lake, "broker-z") == [Hole(0, 0)], "nobody looks for it as lost"
    back = {log_id: len(debt.places()) for log_id, debt in owed(scene.lake).items()}
    is_owed = {broker: count for broker, count in not_asked.items() if count and broker != "broker-w"}
    assert back == is_owed, "should they come back"
    planned = scene.run("erase", {"where": "topic = 'left'", "dry_run": True})
    assert planned.detail["logs_not_asked"] == dict.fromkeys(not_asked, 1)
    # It was back, its rows came into a table that was behind, and it is away again.
    row = {"topic": "owed", "key": "kept", "broker": "broker-z", "position": 0}
    append_rows(scene.lake / "message_index", pa.Table.from_pylist([row], MESSAGE_INDEX.schema))
    again = scene.run("erase", {"where": "key = 'left-17'"})
    assert (again.error, again.detail["messages"], again.detail["tables"]["message_index"]) == (None, 1, 1)
    assert "broker-z" not in [row[0] for row in rows_of(scene.lake, "message_index", ["broker"])]
    # Other tests, which come in any order, know nothing of these brokers.
    scene.stop()
    delete_rows(scene.lake / "messages", topic="left")
    append_identifiers(scene.lake / "messages", {APPLICATION + broker: -1 for broker in not_asked})
    scene.start()


def fail(*_: Any) -> Any:
    raise LakemqError("as if it was cancelled here")


def test_an_erasure_that_was_cut_short_hides_no_later_loss(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its holes are on disk before the logs are asked, and excused for good what was lost there."""
    with connect(scene.gateway) as http:
        put_topic(http, "short", queues=1)
        sent = produce(http, "short", *({"body": "x", "keys": [f"short-{at}"]} for at in range(3)))
    scene.compact()
    position = sent[1]["position"]
    with monkeypatch.context() as patch:
        patch.setattr(LogClient, "erase", fail)
        assert scene.run("erase", {"where": "key = 'short-1'"}, attempts_max=1).result == "failed"
    with scene.without(position):
        (gap,) = scene.findings("http://127.0.0.1:9")  # as when the log no longer goes back so far
        assert (gap["check"], gap["topic"], gap["missing"]) == ("queue", "short", 1)
    assert scene.findings() == []


def test_what_an_erasure_took_from_the_log_alone_is_never_called_lost(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect(scene.gateway) as http:
        (sent, more) = produce(http, "half", *({"body": "x", "keys": [key]} for key in ("half", "more")))
    scene.compact()
    with monkeypatch.context() as patch:
        patch.setattr(erase, "_erase_in_topic_tables", fail)
        assert scene.run("erase", {"where": "topic = 'half'"}, attempts_max=1).result == "failed"
    assert scene.findings() == []
    places = [sent["position"], more["position"]]
    assert kinds_of(scene, places) == {"erasing"}, "the lake has them still"
    for name in ("messages", "consume_queue", "message_index"):  # as if put back, and read anew from the log
        delete_rows(scene.lake / name, position=places[0])
    assert scene.findings() == []
    assert (kinds_of(scene, places[:1]), kinds_of(scene, places[1:])) == ({"erasing", "erased"}, {"erasing"})
    done = scene.run("erase", {"where": "topic = 'half'"})
    assert (done.error, done.detail["log"]) == (None, {"erased": 0, "not_there": 1})
    assert kinds_of(scene, places[1:]) == {"erasing", "erased"}


def kinds_of(scene: Scene, positions: list[int]) -> set[str]:
    """What is said of these."""
    rows = rows_of(scene.lake, "log_holes", ["broker", "first_position", "last_position", "kind"])
    return {
        kind
        for broker, first, last, kind in rows
        for each in positions
        if broker == "broker-a" and first <= each <= last
    }


def test_nothing_is_erased_in_a_log_that_is_not_the_lakes(scene: Scene) -> None:
    """The same positions mean other messages there: a new log in the old one's place lost some of its own."""
    with connect(scene.gateway) as http:
        produce(http, "swapped", {"body": "new", "keys": ["swapped"]})
        scene.compact()
        scene.stop()
        messages = scene.lake / "messages"
        here = read_progress(messages).logs["broker-a"]
        append_identifiers(messages, replaced("broker-a", here, "old"))
        try:
            done = scene.run("erase", {"where": "key = 'swapped'"})
        finally:
            append_identifiers(messages, replaced("broker-a", LogMark(here.number + 1, "old"), here.log_id))
            scene.start()
        assert (done.result, bodies_of(http, "swapped")) == ("failed", ["new"])
        assert done.attempts == 1, "another attempt can't mend it"
        assert "lake adopt" in (done.error or "")
    assert scene.run("erase", {"where": "key = 'swapped'"}).detail["messages"] == 1


def test_many_at_once_are_merged_away(scene: Scene) -> None:
    scene.produce(20)
    scene.compact()
    # What a session has cached is not what is erased: it may be long out of date.
    for table in ("messages", "consume_queue", "message_index"):
        scene.spark.read.format("delta").load(str(scene.lake / table)).cache().count()
    scene.produce(30, "many")
    scene.compact()
    assert erase.IN_LIST_MAX >= 30
    erase.IN_LIST_MAX, before = 5, erase.IN_LIST_MAX
    try:
        done = scene.run("erase", {"where": "topic = 'many'"})
    finally:
        erase.IN_LIST_MAX = before
    assert (done.error, done.detail["messages"]) == (None, 30)
    scene.produced = {message for message in scene.produced if message[1] != "many"}
    scene.check()


def test_a_condition_that_is_none_is_an_error_and_erases_nothing(scene: Scene) -> None:
    scene.produce(3)
    scene.compact()
    done = scene.run("erase", {"where": "no_such_column = 1"})
    assert (done.result, done.attempts) == ("failed", 1)
    assert "no_such_column" in (done.error or "")
    scene.check()
    assert erased_files.has_begun(scene.lake) is False
