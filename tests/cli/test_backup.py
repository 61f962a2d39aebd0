"""`lakemq backup` and `lakemq restore`, as a user runs them beside a gateway."""

from __future__ import annotations

import json
from pathlib import Path

from lakemq.testing import start_gateway
from tests.cli.shell import Run, Shell


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


def test_what_a_backup_holds_is_said_to_people(run: Run, tmp_path: Path) -> None:
    start_gateway(tmp_path / "data").stop()
    options = ["--data-dir", str(tmp_path / "data"), "--lake", str(tmp_path / "lake")]
    made = run("backup", str(tmp_path / "copy"), *options)
    assert (made.code, "1 files" in made.stdout) == (0, True), made
    restored = run("restore", str(tmp_path / "copy"), "--data-dir", str(tmp_path / "other"))
    assert restored.code == 0, restored.stderr
    assert "0 messages" in restored.stdout
    assert "the log is a new one" in restored.stderr
