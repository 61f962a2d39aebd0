"""A log whose sealed segments a lake holds, to be damaged; made once by a real gateway."""

from __future__ import annotations

import random
import shutil
import sys
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from lakemq.testing import start_gateway
from tests.gateway.cold.lakes import Lake
from tests.gateway.http_client import connect, produce, pull_all, put_topic

OPTIONS: dict[str, Any] = {
    "storage__segment_bytes": 2**20,
    "storage__compression": "none",
    "storage__cache_bytes": 0,
    "storage__free_bytes_min": 0,
    "storage__verify_ms": 60_000,
}
TOPICS = ("t", "other")


class Scene(NamedTuple):
    """A log of some segments, sealed but the last, what it answered, and the folder with its lake."""

    folder: Path
    messages: dict[str, list[dict[str, Any]]]

    @property
    def options(self) -> dict[str, Any]:
        """What a gateway of it is started with."""
        return {**OPTIONS, "lake__dir": self.folder / "lake"}

    def segments(self) -> list[Path]:
        """The segments' files."""
        return sorted((self.folder / "data" / "commitlog").glob("*.log"))

    def kept(self) -> list[Path]:
        """What is in quarantine."""
        return sorted((self.folder / "data" / "commitlog").glob("*.quarantine-*"))


def fill(http: httpx.Client, seed: int) -> None:
    """Messages with all sorts of fields in requests of all sizes, with keys of their own, some delayed, some nacked."""
    sys.stdout.write(f"seed {seed}\n")
    chance = random.Random(seed)
    numbers = count()
    put_topic(http, "t", 3)
    for round_ in range(6):
        for _ in range(20):
            batch: list[dict[str, Any]] = []
            for _ in range(chance.choice([1, 1, 3, 20])):
                number = next(numbers)
                message: dict[str, Any] = {"body": f"{number} " + "x" * chance.choice([0, 10, 3000])}
                if chance.random() < 0.5:
                    message |= {"tag": chance.choice("AB"), "properties": {"n": str(number)}, "born_time_ms": number}
                if chance.random() < 0.3:
                    message |= {"keys": [f"k{number % 7}"], "ordering_key": f"o{number % 3}"}
                batch.append(message)
            produce(http, "t", *batch)
        produce(http, "other", *["y" * 100_000] * 9)
        body = {"messages": [{"body": f"once {round_}"}]}
        assert http.post("/v1/topics/t/messages", json=body, headers={"Idempotency-Key": f"i{round_}"}).is_success
        put = {"offsets": [{"topic": "t", "queue_id": 0, "offset": round_ + 1}]}
        assert http.put("/v1/groups/g/offsets", json=put).is_success
        later = {"messages": [{"body": f"late {round_}", "delay_ms": 3_600_000}]}
        assert http.post("/v1/topics/t/messages", json=later).is_success


def make_scene(folder: Path) -> Scene:
    """Begin a log of five segments or so, of which a lake holds all but the last message."""
    scene = Scene(folder, {})
    with start_gateway(folder / "data", **scene.options) as gateway, connect(gateway) as http:
        fill(http, random.randrange(2**32))
        lake = Lake(folder / "lake", gateway.url)
        lake.compact(http)
        produce(http, "t", "after the lake")
        scene.messages.update({topic: pull_all(http, topic) for topic in TOPICS})
        lake.close()
        assert gateway.stop() == 0
    assert len(scene.segments()) >= 5
    return scene


def copy_of(scene: Scene, folder: Path) -> Scene:
    """The same in another folder."""
    shutil.copytree(scene.folder, folder)
    return scene._replace(folder=folder)


def flip(path: Path, at: int) -> None:
    """Flip a bit of the file."""
    content = bytearray(path.read_bytes())
    content[at] ^= 0x10
    path.write_bytes(content)


def cut(path: Path, at: int) -> None:
    """Cut the file off."""
    path.write_bytes(path.read_bytes()[:at])


def check(http: httpx.Client, scene: Scene) -> None:
    """All is answered as it was before the damage: by queue, id, key and position."""
    for topic, messages in scene.messages.items():
        assert pull_all(http, topic) == messages
    chance = random.Random(1)
    for message in chance.sample(scene.messages["t"], 10):
        assert http.get(f"/v1/messages/{message['message_id']}").json() == message
    keyed = [message for message in scene.messages["t"] if message["keys"] == ["k3"]]
    found = http.get("/v1/messages", params={"topic": "t", "key": "k3", "max": 1000})
    assert found.status_code == 200, found.text
    assert found.json() == {"messages": keyed[::-1], "complete": True}
    assert http.get("/v1/groups/g/offsets", params={"topic": "t"}).json()["offsets"][0]["offset"] == 6
