"""A whole fleet is lost, and comes back from backups: two brokers of two replicas each, whose leaders are elected, and
their lake."""

from __future__ import annotations

import json
import shutil
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakemq.client import Producer, PushConsumer
from lakemq.model.errors import LakemqError
from lakemq.storage.backup import back_up, restore
from lakemq.storage.backup.manifest import BadBackup
from lakemq.storage.lake.progress import read_progress
from lakemq.testing import start_nameserver
from tests.client.consuming import wait_until
from tests.gateway.cold.lakes import Lake
from tests.gateway.fleet.electing import PATIENT, STILL_S, Replicas, role_of
from tests.gateway.fleet.following import broker_of, wait_for
from tests.gateway.http_client import produce, pull, pull_all, put_topic
from tests.standstill import begins_again_after

BROKERS = "broker-a", "broker-b"
QUEUES = 2
Place = tuple[int, int, int]


@contextmanager
def fleet_of(folder: Path, nameserver: str) -> Generator[dict[str, Replicas]]:
    """Both brokers with both replicas, in the folders that are there, or new ones. The lake is the leaders' one."""
    with ExitStack() as stack:
        fleet: dict[str, Replicas] = {}
        for name in BROKERS:
            (folder / name).mkdir(exist_ok=True)
            options: dict[str, Any] = {
                **PATIENT,
                "broker__name": name,
                "fleet__nameservers": nameserver,
                "lake__dir": folder / "lake",
                "fleet__store": f"file://{folder / name / 'store'}",
            }
            fleet[name] = Replicas(folder / name, **options)
            stack.callback(fleet[name].close)
            for replica in (0, 1):
                fleet[name].start(replica)
        yield fleet


def places(http: httpx.Client) -> dict[str, Place]:
    """Where each message is, by its body: its queue, offset and position."""
    return {each["body"]: (each["queue_id"], each["queue_offset"], each["position"]) for each in pull_all(http, "t")}


def ids(http: httpx.Client) -> dict[str, str]:
    """By id, what each message is."""
    return {each["message_id"]: each["body"] for each in pull_all(http, "t")}


def fill(fleet: dict[str, Replicas], what: str) -> None:
    for name, replicas in fleet.items():
        leader = replicas.http(replicas.leader())
        for queue_id in range(QUEUES):
            produce(leader, "t", *({"body": f"{what} {name} {queue_id} {n}", "queue_id": queue_id} for n in range(5)))


def offsets_of(http: httpx.Client) -> dict[int, int]:
    found = http.get("/v1/groups/g/offsets", params={"topic": "t"}).json()["offsets"]
    return {each["queue_id"]: each["offset"] for each in found}


def read_from(http: httpx.Client, queue_id: int, offset: int) -> list[int]:
    """The offsets of the messages that are found from there on."""
    found: list[int] = []
    while True:
        answer = pull(http, "t", queue_id, offset, max=100)
        found += [each["queue_offset"] for each in answer["messages"]]
        if answer["next_offset"] == offset:
            return found
        offset = answer["next_offset"]


def write_lake(folder: Path, name: str, replicas: Replicas) -> None:
    lake = Lake(folder / "lake", replicas.running[0].url, name)
    lake.held = read_progress(folder / "lake/messages").held.get(name, 0)
    lake.compact(replicas.http(0))
    lake.close()


@begins_again_after(STILL_S)
def test_a_fleet_that_lost_every_folder_comes_back_from_backups_and_clients_go_on(tmp_path: Path) -> None:
    folder, known, before, after = tmp_path, dict[str, dict[str, Place]](), dict[str, str](), dict[str, Place]()
    with start_nameserver() as names:
        given: dict[str, Any] = {"nameservers": names.url}
        with fleet_of(folder, names.url) as fleet:
            for replicas in fleet.values():
                replicas.in_sync(0, 1)
                put_topic(replicas.http(0), "t", QUEUES)
            fill(fleet, "in the lake")
            for name, replicas in fleet.items():
                write_lake(folder, name, replicas)
            fill(fleet, "in the log")
            for name, replicas in fleet.items():
                done = [{"topic": "t", "queue_id": each, "offset": 3} for each in range(QUEUES)]
                replicas.http(0).put("/v1/groups/g/offsets", json={"offsets": done}).raise_for_status()
                wait_for(replicas.http(1), replicas.http(0))
                known[name] = places(replicas.http(0))
            # Of one broker the leader is copied, with the lake; of the other the follower.
            back_up(folder / "broker-a/0", folder / "lake", folder / "copy-a", "broker-a")
            back_up(folder / "broker-b/1", folder / "lake", folder / "copy-b", "broker-b", lake_in=folder / "copy-a")
            fill(fleet, "after the backup")
            for name, replicas in fleet.items():
                write_lake(folder, name, replicas)  # the lake goes on as well
                before |= ids(replicas.http(0))
                after |= {f"{name} {body}": at for body, at in places(replicas.http(0)).items() if "after" in body}

        for lost in ("broker-a/0", "broker-a/1", "broker-b/0", "broker-b/1", "lake", "broker-a/store"):
            shutil.rmtree(folder / lost)
        restore(folder / "copy-a", folder / "broker-a/0", folder / "lake")
        restore(folder / "copy-b", folder / "broker-b/0", folder / "lake")
        with fleet_of(folder, names.url) as fleet:
            # broker-b's store of leaders is there still, and names a log that is no more: somebody has to say so.
            left = fleet["broker-b"].http(0)
            wait_until(lambda: left.post("/v1/broker/elect", json={"unclean": True}).is_success)
            for name, replicas in fleet.items():
                wait_until(lambda replicas=replicas: role_of(replicas.http(0)) == "primary")
                replicas.in_sync(0, 1)
                leader, follower = (replicas.http(each) for each in (0, 1))
                assert places(leader) == known[name]
                assert offsets_of(leader) == dict.fromkeys(range(QUEUES), 3)
                wait_for(follower, leader)
                wait_until(lambda follower=follower, name=name: places(follower) == known[name])
                for table in ("messages", "consume_queue", "message_index"):
                    mark = read_progress(folder / "lake" / table).logs[name]
                    assert mark.log_id == broker_of(leader)["log_id"]
                write_lake(folder, name, replicas)
            _clients_go_on(fleet, given)
            for name, replicas in fleet.items():
                leader = replicas.http(0)
                # What was told of a message is never told of another one: neither an id, nor a place.
                assert not {each for each, body in ids(leader).items() if before.get(each, body) != body}
                new = {at for body, at in places(leader).items() if body.startswith("new")}
                told = {at for body, at in after.items() if body.startswith(name)}
                assert {at[:2] for at in new}.isdisjoint(at[:2] for at in told)
                assert {at[2] for at in new}.isdisjoint(at[2] for at in told)
                # A consumer that had read all there was before goes on, and misses nothing that is new.
                for queue_id in range(QUEUES):
                    ahead = max(offset for queue, offset, _ in told if queue == queue_id) + 1
                    wanted = sorted(offset for queue, offset, _ in new if queue == queue_id)
                    assert read_from(leader, queue_id, ahead) == wanted


def _clients_go_on(fleet: dict[str, Replicas], given: dict[str, Any]) -> None:
    """A producer finds both brokers, and a consumer of the group gets all that it had not consumed, and all that is
    new."""
    heard: set[str] = set()
    with Producer(**given) as producer:
        for number in range(20):
            producer.send("t", f"new {number}")
    with PushConsumer("g", lambda message: heard.add(message.text()), **given) as consumer:
        consumer.subscribe("t")
        wait_until(lambda: len([each for each in heard if each.startswith("new")]) == 20)
        wanted = {
            each["body"]
            for replicas in fleet.values()
            for each in pull_all(replicas.http(0), "t")
            if each["queue_offset"] >= 3
        }
        wait_until(lambda: heard == wanted)


def test_a_lake_and_a_log_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    with start_nameserver() as names, fleet_of(tmp_path, names.url) as fleet:
        replicas = fleet["broker-a"]
        replicas.in_sync(0, 1)
        put_topic(replicas.http(0), "t", QUEUES)
        fill({"broker-a": replicas}, "0")
        data = tmp_path / "broker-a/0"
        back_up(data, tmp_path / "lake", tmp_path / "early", "broker-a")
        fill({"broker-a": replicas}, "1")
        write_lake(tmp_path, "broker-a", replicas)
    with pytest.raises(BadBackup, match="and the backup ends with"):
        restore(tmp_path / "early", tmp_path / "restored", tmp_path / "lake")
    assert not (tmp_path / "restored").exists()
    with pytest.raises(LakemqError, match="there is no backup in"):
        back_up(data, tmp_path / "lake", tmp_path / "another", "broker-a", lake_in=tmp_path / "none")


def test_a_log_whose_lake_is_in_another_backup_is_not_restored_without_it(tmp_path: Path) -> None:
    data, lake = tmp_path / "broker-a/0", tmp_path / "lake"
    with start_nameserver() as names, fleet_of(tmp_path, names.url) as fleet:
        replicas = fleet["broker-a"]
        replicas.in_sync(0, 1)
        put_topic(replicas.http(0), "t", QUEUES)
        fill({"broker-a": replicas}, "0")
        write_lake(tmp_path, "broker-a", replicas)
    back_up(data, lake, tmp_path / "first", "broker-a")
    back_up(data, lake, tmp_path / "copy", "broker-a", lake_in=tmp_path / "first")
    with pytest.raises(BadBackup, match="holds nothing of this log"):
        restore(tmp_path / "copy", tmp_path / "restored", tmp_path / "no lake")
    assert not (tmp_path / "restored").exists()

    manifest = tmp_path / "copy/manifest.json"
    whole = manifest.read_text()
    changed = json.loads(whole)
    changed["first_position"] = changed["next_position"] + 1
    manifest.write_text(json.dumps(changed))
    with pytest.raises(BadBackup, match="and the backup begins with"):
        restore(tmp_path / "copy", tmp_path / "restored", lake)

    # What fails before the log is whole leaves the lake as it was.
    changed["first_position"] = json.loads(whole)["first_position"]
    changed["next_position"] += 1
    manifest.write_text(json.dumps(changed))
    with pytest.raises(BadBackup, match="the backup's log ends with position"):
        restore(tmp_path / "copy", tmp_path / "failed", lake)
    manifest.write_text(whole)
    restored = restore(tmp_path / "copy", tmp_path / "restored", lake)
    assert read_progress(lake / "messages").logs["broker-a"].log_id == restored.log_id
    with pytest.raises(BadBackup, match="holds nothing of this log"):
        restore(tmp_path / "copy", tmp_path / "again", lake)
