"""The job `verify` on a lake that is sound, and on one that is damaged in each way there is."""

from __future__ import annotations

from typing import Any

import pytest

from lakemq.jobs.maintenance.runner import Runner
from lakemq.jobs.tables.driver import Driver
from lakemq.jobs.tables.holes import ERASED, LOST, Hole, append_holes, read_holes
from lakemq.jobs.tables.tables import CONSUME_QUEUE, MESSAGE_INDEX, MESSAGES
from tests.gateway.http_client import connect, put_topic
from tests.jobs.changed_rows import append_rows, delete_rows, delete_rows_up_to, rows_having, set_values
from tests.jobs.maintenance.scene import Load, Scene


def test_a_lake_under_load_agrees_with_its_log_whatever_maintenance_did(scene: Scene) -> None:
    for _ in range(2):
        scene.produce(20)
        scene.compact()
    scene.run("optimize")
    scene.run("retention", keep={"a": "400B"})
    with Load(scene):  # in parts, so that windows have edges
        done = scene.run("verify", verify_rows=50)
    assert (done.result, done.detail["findings"]) == ("done", [])
    assert 0 < done.detail["messages"] <= done.detail["log_messages"]
    assert done.detail["brokers"]["broker-a"]["log_from"] == 0


def test_each_kind_of_damage_is_found_and_named(scene: Scene) -> None:
    new = scene.produce(30)
    scene.compact()
    queue, index, messages = (table.path(scene.lake) for table in (CONSUME_QUEUE, MESSAGE_INDEX, MESSAGES))
    places = [message[4] for message in new]
    delete_rows(index, position=places[3])
    append_rows(queue, rows_having(queue, position=places[5]))
    set_values(messages, {"body": b"other"}, position=places[7])
    done = scene.run("verify")
    assert done.result == "differs"
    found = {finding["check"]: finding for finding in done.detail["findings"]}
    assert set(found) == {"message_index", "consume_queue", "messages", "queue"} - {"queue"} | {"queue"} & set(found)
    assert (found["message_index"]["missing"], found["message_index"]["sample"][0]["position"]) == (1, places[3])
    assert found["messages"]["differing"] == 1
    assert found["messages"]["sample"][0]["position"] == places[7]
    duplicates = [finding for finding in done.detail["findings"] if finding.get("duplicates")]
    assert [finding["sample"] for finding in duplicates] == [[{"position": places[5], "count": 2}]]
    set_values(messages, {"body": body_at(scene, places[7]).encode()}, position=places[7])
    scene.run("index-rebuild")
    assert scene.run("verify").detail["findings"] == []
    # What comes before all that a table has is missing there, too, and no log says so here.
    lost = delete_rows_up_to(queue, places[3])
    done = Runner(
        scene.spark, scene.settings, lambda: "http://127.0.0.1:9", driver=Driver(scene.spark, scene.settings.lake)
    ).run("verify", "command")
    assert [(found["check"], found["missing"]) for found in done.detail["findings"]] == [("consume_queue", lost)]
    scene.run("index-rebuild")


@pytest.mark.long
def test_a_gap_in_a_queue_is_a_finding_unless_a_hole_explains_it(scene: Scene) -> None:
    new = scene.produce(30)
    scene.compact()
    queue_id = min(message[2] for message in new)
    of_queue = sorted(message for message in new if message[2] == queue_id)
    _, _, _, offset, position, _ = of_queue[1]
    for table in (CONSUME_QUEUE, MESSAGE_INDEX, MESSAGES):
        delete_rows(table.path(scene.lake), position=position)
    findings = scene.run("verify").detail["findings"]
    assert {finding["check"] for finding in findings} == {"messages", "queue"}
    (gap,) = (finding for finding in findings if finding["check"] == "queue")
    assert (gap["after_offset"], gap["before_offset"], gap["missing"]) == (offset - 1, offset + 1, 1)
    append_holes(scene.lake, "broker-a", [Hole(position, position)], LOST)
    findings = scene.run("verify").detail["findings"]
    assert {finding["check"] for finding in findings} == {"messages"}, "the log still has it"
    of_it = [each for each in read_holes(scene.lake, "broker-a") if each.first <= position <= each.last]
    assert of_it == [Hole(position, position)]
    with connect(scene.gateway) as http:
        assert http.post("/v1/log/erasures", json={"positions": [position]}).json()["erased"] == 1
    assert scene.run("verify").detail["findings"] == []


def test_a_hole_excuses_no_other_row_where_its_own_is_there(scene: Scene) -> None:
    """Of an erasure that was cut short, or where the log has lost what the lake has."""
    with connect(scene.gateway) as http:
        for topic in ("odd", "even"):
            put_topic(http, topic)
    odd, even = zip(*((scene.produce(1, "odd")[0][4], scene.produce(1, "even")[0][4]) for _ in range(3)), strict=True)
    scene.compact()
    append_holes(scene.lake, "broker-a", [Hole(even[0], even[0]), Hole(even[1], even[1])], ERASED)
    with scene.without(odd[1]):
        (gap,) = scene.findings("http://127.0.0.1:9")
        assert (gap["check"], gap["topic"], gap["missing"]) == ("queue", "odd", 1)
    assert scene.findings() == []


def body_at(scene: Scene, position: int) -> Any:
    return next(message[5] for message in scene.produced if message[4] == position)
