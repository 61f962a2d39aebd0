"""A lake that is away for a while, as a disk is that isn't mounted yet: nobody passes over what it has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from lakemq.testing import start_gateway
from tests.gateway.cold.lakes import Lake
from tests.gateway.cold.test_cold_groups import OPTIONS, leave, receive_all
from tests.gateway.http_client import connect, is_problem, message_id_at, produce, pull, put_topic
from tests.gateway.receive.asking import ack, bodies, change, receive
from tests.gateway.routing.asking import nack, wait_until

TEXTS = [str(number) for number in range(20)]
DEAD = 500
HOUR_MS = 3_600_000
FAULT = "what has left the log can't be read: no lake of this broker is in "


class Scene(NamedTuple):
    http: httpx.Client
    folder: Path
    redrive_id: str
    """Of a redrive that was under way as the broker stopped, and began again without the lake."""

    def take_away(self) -> None:
        """The lake's folder is empty, as the place is where nothing is mounted."""
        (self.folder / "lake").rename(self.folder / "away")
        (self.folder / "lake").mkdir()
        erase_nothing(self.http)

    def put_back(self) -> None:
        (self.folder / "lake").rmdir()
        (self.folder / "away").rename(self.folder / "lake")
        erase_nothing(self.http)

    def faults(self) -> list[str]:
        return [line for line in self.http.get("/readyz").json()["degraded"] if line.startswith(FAULT)]


def erase_nothing(http: httpx.Client) -> None:
    """The gateway forgets what it has read of the lake."""
    assert http.post("/v1/log/erasures", json={}).status_code == 200


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A broker whose messages have left its log, started again without its lake, which is back now."""
    folder = tmp_path_factory.mktemp("lake-away")

    def start() -> Any:
        return start_gateway(folder / "data", lake__dir=folder / "lake", **OPTIONS)

    with start() as gateway, connect(gateway) as http:
        lake = Lake(folder / "lake", gateway.url)
        put_topic(http, "t", 1)
        produce(http, "t", *TEXTS)
        for group in ("pulls", "receives"):
            ack(http, group, *receive(http, group, "t", max=1))
        dead = [{"message_id": each["message_id"], "delay_level": -1} for each in produce(http, "d", *["x"] * DEAD)]
        assert nack(http, "fails", *dead).status_code == 200
        slowly = http.post("/v1/groups/fails/dead-letters/redrive", json={"rate_per_s": 1})
        leave(http, lake)
        lake.close()
    (folder / "lake").rename(folder / "away")
    (folder / "lake").mkdir()
    with start() as gateway, connect(gateway) as http:
        scene = Scene(http, folder, slowly.json()["redrive_id"])
        wait_until(lambda: scene.faults() != [], "the redrive doesn't ask for its record")
        scene.put_back()
        yield scene


def test_a_redrive_that_began_again_without_the_lake_goes_on_once_it_is_back(scene: Scene) -> None:
    """Its record has left the log; what isn't in the lake either would be lost."""

    def shown() -> dict[str, Any]:
        answer = scene.http.get(f"/v1/redrives/{scene.redrive_id}?max=0")
        assert answer.status_code == 200, answer.text
        return answer.json()

    before = shown()
    assert before["matched"] == DEAD
    wait_until(lambda: shown()["redriven"] > before["redriven"], "it doesn't go on")
    assert (shown()["state"], shown()["failed"]) == ("running", 0)


def _receive(http: httpx.Client) -> httpx.Response:
    return http.post("/v1/groups/receives/receive", json={"topic": "t", "wait_ms": 0, "max": 32})


READS: dict[str, Callable[[httpx.Client], httpx.Response]] = {
    "a pull": lambda http: http.get("/v1/topics/t/queues/0/messages?offset=3"),
    "a pull of a group": lambda http: http.get("/v1/topics/t/queues/0/messages?offset=1&group=pulls"),
    "a receive": _receive,
    "by id": lambda http: http.get(f"/v1/messages/{message_id_at(http, 3)}"),
    "dead letters": lambda http: http.get("/v1/groups/fails/dead-letters"),
}


def test_who_reads_history_meanwhile_is_told_and_nothing_is_passed_over(scene: Scene) -> None:
    http = scene.http
    scene.take_away()
    for what, read in READS.items():
        answer = read(http)
        assert (what, answer.status_code, answer.json().get("code")) == (what, 503, "lake_unreadable")
    assert scene.faults()
    assert http.get("/readyz").status_code == 200  # all else goes on
    produce(http, "new", "a")
    assert bodies(pull(http, "new", 0, 0)["messages"]) == ["a"]
    scene.put_back()
    for read in READS.values():
        if read is not _receive:
            assert read(http).status_code == 200
    assert not scene.faults()
    assert http.get("/v1/groups/receives").json()["gaps"] == []
    assert sorted(bodies(receive_all(http, "receives", "t", len(TEXTS) - 1)), key=int) == TEXTS[1:]


def test_what_runs_out_meanwhile_comes_again_once_it_is_back(scene: Scene) -> None:
    http = scene.http
    taken = receive(http, "late", "t", max=3, invisible_ms=HOUR_MS)
    assert len(taken) == 3
    scene.take_away()
    for each in taken:
        assert change(http, "late", each["receipt"], 1).status_code == 200
    wait_until(lambda: scene.faults() != [], "nobody has looked for the messages")
    scene.put_back()
    found = receive_all(http, "late", "t", len(TEXTS))
    assert sorted(bodies(found), key=int) == TEXTS
    assert {each["body"]: each["reconsume_times"] for each in found if each["reconsume_times"]} == dict.fromkeys(
        bodies(taken), 1
    )


def test_where_nobody_looks_into_the_lake_a_queue_begins_where_its_log_does(tmp_path: Path) -> None:
    """`lake.verify = false`: the log has let go of what the gateway was told is in a lake that it can't see."""
    unseen = {"lake__dir": tmp_path / "lake", "lake__verify": False}
    with start_gateway(tmp_path / "data", **unseen, **OPTIONS) as gateway, connect(gateway) as http:
        put_topic(http, "t", 1)
        produce(http, "t", *TEXTS)
        produce(http, "filler", *["x" * 100_000] * 12)
        produce(http, "filler", "y")
        end = http.get("/v1/broker").json()["max_position"]
        assert http.put("/v1/broker/compacted", json={"compacted_position": end}).status_code == 200
        wait_until(lambda: http.get("/v1/broker").json()["min_position"] > 0, "it has not left the log")
        answer = pull(http, "t", 0, 3)
        assert (answer["status"], answer["next_offset"]) == ("offset_out_of_range", len(TEXTS))
        assert is_problem(http.get(f"/v1/messages/{message_id_at(http, 3)}"), 404, "message_not_found")
