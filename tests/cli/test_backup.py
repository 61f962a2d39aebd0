"""`lakemq backup` and `lakemq restore`, as a user runs them beside a gateway."""

from __future__ import annotations

import json
import shlex
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from lakemq.testing import start_gateway
from tests.cli.shell import Run, Shell
from tests.docs.documents import blocks
from tests.gateway.cold.lakes import Lake
from tests.gateway.http_client import connect, produce, pull_all
from tests.storage.backup.shortened import make_shortened


def test_a_backup_is_made_beside_a_running_gateway_and_restored(run: Run, tmp_path: Path) -> None:
    data, lake, copy = (str(tmp_path / name) for name in ("data", "lake", "copy"))
    with start_gateway(Path(data)) as gateway:
        shell = Shell(run, gateway.url)
        shell("produce", "orders", "kept", "--ack", "sync", "--queue", "0")
        made = run("backup", copy, "--data-dir", data, "--lake", lake, "--broker-name", "broker-a", "--json")
        assert made.code == 0, made.stderr
        again = run("backup", copy, "--data-dir", data, "--lake", lake)
        assert (again.code, again.stderr.count("\n")) == (1, 1)
        over = run("restore", copy, "--data-dir", data, "--lake", lake)
        assert (over.code, over.stderr.count("\n")) == (1, 1)
    restored = run("restore", copy, "--data-dir", data + "-2", "--lake", lake, "--json")
    assert restored.code == 0, restored.stderr
    assert json.loads(restored.stdout)["next_position"] == json.loads(made.stdout)["next_position"]
    assert json.loads(restored.stdout)["log_id"] != json.loads(made.stdout)["log_id"]
    with start_gateway(Path(data + "-2")) as gateway:
        assert [each["body"] for each in Shell(run, gateway.url).pulled("orders", "--queue", "0")] == ["kept"]


def test_the_rehearsal_of_the_page_finds_what_the_broker_had(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its commands as they stand there, beside a broker that takes messages all the time."""
    commands = [
        line for block in blocks("docs/backup.md") for line in block.commands() if "rehears" in line or "tried" in line
    ]
    assert [line.split()[1] for line in commands] == ["backup", "restore", "log", "doctor"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAKEMQ_BROKER__NAME", "broker-a")
    with start_gateway(tmp_path / "data", lake__dir=tmp_path / "lake") as gateway, connect(gateway) as http:
        for number in range(20):
            produce(http, "orders", *(f"{number}.{each}" for each in range(10)), ack="sync")
        http.put("/v1/groups/g/offsets", json={"offsets": [{"topic": "orders", "queue_id": 0, "offset": 7}]})
        tables = Lake(tmp_path / "lake", gateway.url)
        tables.compact(http)
        tables.close()
        before = ends(http)
        over = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            taking = pool.submit(_produce_until, http, over)
            try:
                for line in commands:
                    done = run(*shlex.split(line.replace(" /backups/", " backups/"))[1:])
                    assert done.code == 0 or ("doctor" in line and '"down"' not in done.stdout), (line, done)
            finally:
                over.set()
            taking.result()
        after = ends(http)
    with start_gateway(tmp_path / "backups/tried/data") as tried, connect(tried) as http:
        restored, groups = ends(http), http.get("/v1/groups").json()["groups"]
    assert restored.keys() == before.keys()
    assert all(before[queue] <= restored[queue] <= after[queue] for queue in before), (before, restored, after)
    assert "g" in str(groups)


def ends(http: httpx.Client) -> dict[int, int]:
    """How far each queue of `orders` goes, without what a restored log passes over."""
    return dict(Counter(each["queue_id"] for each in pull_all(http, "orders")))


def _produce_until(http: httpx.Client, over: threading.Event) -> None:
    while not over.wait(0.05):
        produce(http, "orders", "one more", ack="sync")


def test_what_a_backup_holds_is_said_to_people(run: Run, tmp_path: Path) -> None:
    start_gateway(tmp_path / "data").stop()
    options = ["--data-dir", str(tmp_path / "data"), "--lake", str(tmp_path / "lake")]
    made = run("backup", str(tmp_path / "copy"), *options)
    assert (made.code, "1 files" in made.stdout) == (0, True), made
    restored = run("restore", str(tmp_path / "copy"), "--data-dir", str(tmp_path / "other"))
    assert restored.code == 0, restored.stderr
    assert "0 messages" in restored.stdout
    assert "the log is a new one" in restored.stderr
    assert "broker.name" not in restored.stderr
    assert run("backup", str(tmp_path / "of-b"), *options, "--broker-name", "broker-b").code == 0
    restored = run("restore", str(tmp_path / "of-b"), "--data-dir", str(tmp_path / "b"))
    assert "it is the log of broker-b, and broker.name is broker-a here" in restored.stderr
    alone = [*options, "--without-lake"]
    assert run("backup", str(tmp_path / "log"), *alone).code == 0
    assert run("backup", str(tmp_path / "both"), *alone, "--lake-in", str(tmp_path / "copy")).code == 2


def test_what_a_backup_without_the_lake_lacks_is_said_when_it_is_made_and_restored(run: Run, tmp_path: Path) -> None:
    """A restore of it said how many messages there are, and nothing of those that are not."""
    first = make_shortened(tmp_path / "data")
    of_data, lake = ["--data-dir", str(tmp_path / "data"), "--without-lake"], str(tmp_path / "lake")
    made = run("backup", str(tmp_path / "copy"), *of_data)
    assert made.code == 0, made.stderr
    assert f"messages below position {first:,} are not in it" in made.stderr
    restored = run("restore", str(tmp_path / "copy"), "--data-dir", str(tmp_path / "other"), "--lake", lake)
    assert restored.code == 0, restored.stderr
    assert f"messages below position {first:,} are missing" in restored.stderr
    told = [
        run("backup", str(tmp_path / "copy-2"), *of_data, "--json"),
        run("restore", str(tmp_path / "copy"), "--data-dir", str(tmp_path / "third"), "--lake", lake, "--json"),
    ]
    assert [json.loads(each.stdout)["missing_below"] for each in told] == [first, first]
