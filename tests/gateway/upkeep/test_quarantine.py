"""Damage in a segment that the lake holds stops nothing, and costs no message: of a start, and while it is read."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from lakemq.storage.lake.progress import read_progress
from lakemq.storage.mend.verify import verify_log
from lakemq.testing import start_gateway
from tests.gateway.cold.lakes import Lake
from tests.gateway.http_client import connect, is_problem, produce, pull_all
from tests.gateway.routing.asking import wait_until
from tests.storage.mended import Scene, check, copy_of, cut, flip, make_scene


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return make_scene(tmp_path_factory.mktemp("quarantine"))


@pytest.fixture
def scene(made: Scene, tmp_path: Path) -> Scene:
    return copy_of(made, tmp_path / "copy")


def metric(http: httpx.Client, name: str) -> float:
    lines = http.get("/metrics").text.splitlines()
    return float(next(line for line in lines if line.startswith(name + " ")).split()[1])


def test_damage_is_mended_by_a_start_and_while_it_is_read(scene: Scene) -> None:
    """A start used to refuse it, and reads were 503 `log_damaged`, although every message was in the lake."""
    paths = scene.segments()
    flip(paths[1], 500_000)
    cut(paths[2], 300_000)
    with start_gateway(scene.folder / "data", **scene.options) as gateway, connect(gateway) as http:
        check(http, scene)
        (quarantine,) = [line for line in http.get("/readyz").json()["degraded"] if line.startswith("quarantine: ")]
        assert f"{paths[1].name}.quarantine-1" in quarantine
        assert metric(http, "lakemq_quarantined_segments") == 2
        wait_until(lambda: any("messages from the lake stands in for it" in line for line in gateway.log))
        for at in range(40, 1_000_000, 50_000):
            flip(paths[3], at)
        paths[0].unlink()
        check(http, scene)
        wait_until(lambda: metric(http, "lakemq_quarantined_segments") == 3)
        wait_until(lambda: metric(http, "lakemq_damaged_segments") == 0)
        check(http, scene)
        key = {"Idempotency-Key": "i0"}
        again = http.post("/v1/topics/t/messages", json={"messages": [{"body": "once 0"}]}, headers=key)
        assert again.is_success or is_problem(again, 503, "log_damaged")
        assert pull_all(http, "t") == scene.messages["t"], "a request was stored twice"
        position = next(each["position"] for each in scene.messages["t"] if each["position"] > int(paths[1].stem))
        assert http.post("/v1/log/erasures", json={"positions": [position]}).json()["erased"] == 1
        assert f"{paths[1].name}.quarantine-1" not in [path.name for path in scene.kept()]
        assert gateway.stop() == 0
    assert paths[0].exists()
    assert verify_log(scene.folder / "data").sound


def test_damage_that_the_lake_does_not_hold_is_told_until_it_does(scene: Scene, tmp_path: Path) -> None:
    (scene.folder / "lake").rename(tmp_path / "away")
    with start_gateway(scene.folder / "data", **scene.options) as gateway, connect(gateway) as http:
        flip(scene.segments()[1], 500_000)
        paths = [f"/v1/messages/{each['message_id']}" for each in scene.messages["other"]]
        damaged = [path for path in paths if http.get(path).status_code != 200]
        assert damaged
        assert all(is_problem(http.get(path), 503, "log_damaged") for path in damaged)
        assert metric(http, "lakemq_damaged_segments") == 1
        assert any("is damaged at offset" in line for line in http.get("/readyz").json()["degraded"])
        (tmp_path / "away").rename(scene.folder / "lake")
        wait_until(lambda: all(http.get(path).is_success for path in damaged))
        check(http, scene)


def test_damage_of_the_written_segment_is_mended_once_it_is_sealed(scene: Scene) -> None:
    """A start refused it, though its index had the state and the lake the messages."""
    scene = scene._replace(messages=dict(scene.messages))
    with start_gateway(scene.folder / "data", **scene.options) as gateway, connect(gateway) as http:
        lake = Lake(scene.folder / "lake", gateway.url)
        lake.held = _held(scene)
        produce(http, "t", *["of the written segment"] * 3)
        produce(http, "t", "the last one")
        lake.compact(http)
        scene.messages["t"] = pull_all(http, "t")
        _flip_last_but_one(scene)
        check(http, scene)
        wait_until(lambda: metric(http, "lakemq_quarantined_segments") == 1)
        check(http, scene)
        produce(http, "t", *["of the next one"] * 3)
        produce(http, "t", "the very last one")
        lake.compact(http)
        scene.messages["t"] = pull_all(http, "t")
        lake.close()
        assert gateway.stop() == 0
    _flip_last_but_one(scene)
    with start_gateway(scene.folder / "data", **scene.options) as gateway, connect(gateway) as http:
        assert any("the lake holds what is damaged" in line for line in gateway.log)
        check(http, scene)

        def is_mended() -> bool:
            http.put("/v1/broker/compacted", json={"compacted_position": 0}).raise_for_status()  # so it looks now
            return metric(http, "lakemq_quarantined_segments") == 2

        wait_until(is_mended)
        wait_until(lambda: metric(http, "lakemq_damaged_segments") == 0)
        check(http, scene)
        assert gateway.stop() == 0
    assert verify_log(scene.folder / "data").sound


def _held(scene: Scene) -> int:
    """How far the scene's lake holds the log."""
    return read_progress(scene.folder / "lake" / "messages").held["broker-a"]


def _flip_last_but_one(scene: Scene) -> None:
    """Damage the last frame but one of the segment that is written."""
    path = scene.segments()[-1]
    content = path.read_bytes()
    flip(path, content.rindex(b"LMQF", 0, content.rindex(b"LMQF")) + 200)


def test_a_start_that_refuses_a_damaged_log_says_how_to_look_at_it_and_get_out(scene: Scene) -> None:
    path = scene.segments()[-1]
    flip(path, path.read_bytes().rindex(b"LMQF") + 120)
    with pytest.raises(RuntimeError, match=r"lakemq log verify --data-dir .* lakemq log repair --data-dir"):
        start_gateway(scene.folder / "data", **scene.options)
