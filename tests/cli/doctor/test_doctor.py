"""`lakemq doctor` with a real gateway, with none, and with one that tells only who may know."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakemq.testing import start_gateway
from tests.certificates import Authority
from tests.cli.shell import Run
from tests.gateway.access.asking import allow, ask_as, make_user, token_of
from tests.gateway.redrive.test_dead_letter_list import bury
from tests.ports import free_port
from tests.upgrade.future import from_the_future


def findings(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_broker_that_is_not_there_is_down(run: Run, tmp_path: Path) -> None:
    address = f"http://127.0.0.1:{free_port()}"
    done = run("doctor", "--json", "--broker", address, "--data-dir", str(tmp_path / "no"), "--lake", str(tmp_path))
    assert done.code == 1
    first, *others = findings(done.stdout)
    assert (first["grade"], first["about"]) == ("down", address)
    assert "start it: `lakemq up`" in first["do"]
    assert "its log says why it ended" in first["do"], "a start that fails again and again is no remedy"
    assert ("note", "there is no log yet") in [(each["grade"], each["what"]) for each in others]


def test_what_listens_and_says_nothing_is_not_to_be_started(run: Run, tmp_path: Path) -> None:
    def hang_up() -> None:
        with suppress(OSError):  # the test is over
            while True:
                listening.accept()[0].close()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=hang_up, daemon=True).start()
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        done = run("doctor", "--json", "--broker", address, "--data-dir", str(tmp_path / "no"), "--lake", str(tmp_path))
        listening.shutdown(socket.SHUT_RDWR)
    first, *_ = findings(done.stdout)
    assert (first["grade"], first["about"]) == ("down", address)
    assert "something listens there" in first["do"]


def test_this_machine_alone_is_looked_at(run: Run, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "admin.token").write_text("x")
    (tmp_path / "data" / "admin.token").chmod(0o644)
    folders = ("--data-dir", str(tmp_path / "data"), "--lake", str(tmp_path / "lake"))
    done = run("doctor", "--here", *folders)
    assert done.code == 1
    assert "others can read admin.token" in done.stdout
    assert "no answer" not in done.stdout
    (tmp_path / "data" / "admin.token").chmod(0o600)
    assert "admin.token" not in run("doctor", "--here", *folders).stdout


@pytest.mark.parametrize(
    ("settings", "stays"),
    [
        ({}, ""),
        ({"GATEWAY__HOST": "192.0.2.1"}, "http://127.0.0.1"),
        ({"GATEWAY__HOST": "192.0.2.1", "SQL_HTTP__HOST": "::1"}, "http://[::1]"),
        ({"GATEWAY__HOST": "192.0.2.1", "SQL_HTTP__ENABLED": "false"}, ""),
        ({"GATEWAY__HOST": "192.0.2.1", "SQL_HTTP__HOST": "192.0.2.1"}, ""),
        ({"GATEWAY__HOST": "192.0.2.1", "SQL_HTTP__ADVERTISE": "http://192.0.2.1:9"}, ""),
        ({"GATEWAY__ADVERTISE": "http://192.0.2.1:8080"}, "http://127.0.0.1"),
        ({"GATEWAY__ADVERTISE": "http://127.0.0.1:8080"}, ""),
        ({"GATEWAY__HOST": "192.0.2.1", "TLS__CERT_FILE": "b.pem", "TLS__KEY_FILE": "b.key"}, "https://127.0.0.1"),
    ],
    ids=str,
)
def test_sql_that_clients_elsewhere_cannot_reach_is_said(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], stays: str
) -> None:
    for name, value in ({"AUTH__INSECURE": "true", "SQL_HTTP__PORT": "9"} | settings).items():
        monkeypatch.setenv(f"LAKEMQ_{name}", value)
    done = run("doctor", "--here", "--json", "--data-dir", str(tmp_path / "no"), "--lake", str(tmp_path))
    found = [each for each in findings(done.stdout) if each["about"] == "SQL over HTTP"]
    assert [each["grade"] for each in found] == ["note"] * bool(stays)
    for each in found:
        assert f"the jobs' SQL, at {stays}, only to this one" in each["what"]
        assert "set sql_http.host, sql_http.port and sql_http.advertise" in each["do"]


def test_a_certificate_by_which_no_client_would_connect_is_wrong(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a broker that is stopped nothing said it, and of one that runs on with its last certificate neither."""
    authority = Authority(tmp_path / "authority")
    sound, expired = authority.pair("sound"), authority.pair("expired", days=-1)
    for cert, key, what in (
        (sound.cert, sound.key, ""),
        (expired.cert, expired.key, "it has expired"),
        (sound.cert, expired.key, "the key of another certificate"),
        (sound.cert, tmp_path / "none.key", "No such file"),
    ):
        monkeypatch.setenv("LAKEMQ_TLS__CERT_FILE", str(cert))
        monkeypatch.setenv("LAKEMQ_TLS__KEY_FILE", str(key))
        done = run("doctor", "--here", "--json", "--data-dir", str(tmp_path / "no"), "--lake", str(tmp_path))
        found = [each for each in findings(done.stdout) if each["about"] == "TLS"]
        assert [each["grade"] for each in found] == ["wrong"] * bool(what)
        assert all(what in each["what"] for each in found)


def test_a_log_that_no_gateway_would_start_with_is_down(run: Run, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with start_gateway(data) as gateway:
        httpx.post(f"{gateway.url}/v1/topics/t/messages", content=b"x", timeout=60).raise_for_status()
    folders = ("--data-dir", str(data), "--lake", str(tmp_path))
    assert "gateway starts" not in run("doctor", "--here", *folders).stdout
    (segment,) = (data / "commitlog").glob("*.log")
    whole = segment.read_bytes()
    segment.write_bytes(from_the_future(whole))
    assert "down  " in (told := run("doctor", "--here", *folders).stdout)
    assert "newer lakemq" in told
    with pytest.raises(RuntimeError, match="newer lakemq"):
        start_gateway(data)
    segment.write_bytes(whole)
    (data / "commitlog" / "REPAIRING").write_text(segment.name)
    assert "run it once more" in run("doctor", "--here", *folders).stdout


def test_damage_of_the_newest_segment_is_said(run: Run, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with start_gateway(data) as gateway:
        for body in (b"first", b"second"):
            httpx.post(f"{gateway.url}/v1/topics/t/messages", content=body, timeout=60).raise_for_status()
    (segment,) = (data / "commitlog").glob("*.log")
    whole = segment.read_bytes()

    def told() -> list[str]:
        done = run("doctor", "--here", "--json", "--data-dir", str(data), "--lake", str(tmp_path))
        found = [each for each in findings(done.stdout) if "log verify" in each["do"]]
        assert all((each["grade"], each["about"]) == ("wrong", str(data)) for each in found)
        return [each["what"] for each in found]

    assert told() == []
    segment.write_bytes(whole + b"torn as it was written")  # no damage: it wasn't on disk yet, and a start cuts it off
    assert told() == []
    segment.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert told() == [
        f"{segment.name} is damaged at byte {whole.rindex(whole[:4])}: the payload's checksum does not match"
    ]
    segment.write_bytes(whole[:-1])
    assert segment.name in told()[0]


def test_what_a_broker_lacks_is_said_and_what_matters_most_first(run: Run, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with start_gateway(data) as gateway:
        httpx.post(
            f"{gateway.url}/v1/topics/t/messages", json={"messages": [{"body": "x"}]}, timeout=60
        ).raise_for_status()
        reset = {"topic": "t", "to": "earliest"}
        for group in ("idle", "held"):
            httpx.post(f"{gateway.url}/v1/groups/{group}/offsets/reset", json=reset, timeout=60).raise_for_status()
        httpx.put(f"{gateway.url}/v1/groups/held", json={"consume_enabled": False}, timeout=60).raise_for_status()
        options = ("--broker", gateway.url, "--data-dir", str(data), "--lake", str(tmp_path / "lake"))
        told = findings(run("doctor", "--json", *options).stdout)
        shown = run("doctor", *options).stdout
    whats = [each["what"] for each in told]
    assert any(what.startswith("no jobs are running") for what in whats)
    assert any(what.startswith("group idle is 1 message behind") for what in whats)
    assert "group held is paused, and 1 message behind" in whats
    assert [each["grade"] for each in told] == sorted((each["grade"] for each in told), key=ORDER.index)
    for each in told:
        assert f"{each['about']}: {each['what']}" in shown
        assert f"      {each['do']}" in shown


def test_of_dead_letters_the_open_ones_are_counted(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "data"
    with start_gateway(data, auth__required="true") as gateway, ask_as(gateway, token_of(data)) as admin:
        bury(admin, "mended", "t", *[{"body": "x", "tag": tag} for tag in "ab"])
        bury(admin, "failing", "t", *[{"body": "x", "tag": tag} for tag in "abc"])
        given_up = {"mended": "true", "failing": "tag = 'b'"}
        for group, where in given_up.items():
            admin.post(f"/v1/groups/{group}/dead-letters/discard", json={"where": where}).raise_for_status()
        options = ("--json", "--broker", gateway.url, "--data-dir", str(data), "--lake", str(tmp_path / "lake"))

        def told() -> list[str]:
            whats = [each["what"] for each in findings(run("doctor", *options).stdout)]
            return [what for what in whats if "dead letters" in what]

        monkeypatch.setenv("LAKEMQ_TOKEN", token_of(data))
        assert told() == ["group failing has 2 open dead letters"]
        policies = allow("Topic:*", "List"), allow("Group:*", "Get", "List")
        monkeypatch.setenv("LAKEMQ_TOKEN", make_user(admin, "reader", *policies))
        unknown = "dead letters; how many are open is not known, as this user may not see metrics"
        assert told() == [f"group failing has 3 {unknown}", f"group mended has 2 {unknown}"]


ORDER = ["down", "wrong", "soon", "note"]


def test_who_may_not_know_is_told_so(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "data"
    with start_gateway(data, auth__required="true") as gateway, ask_as(gateway, token_of(data)) as admin:
        monkeypatch.setenv("LAKEMQ_TOKEN", make_user(admin, "somebody", allow("Topic:mine", "Pub")))
        options = ("--broker", gateway.url, "--data-dir", str(data), "--lake", str(tmp_path / "lake"))
        told = findings(run("doctor", "--json", *options).stdout)
    (found,) = [each for each in told if each["about"] == gateway.url and each["grade"] == "note"]
    assert "doesn't tell this user" in found["what"]


def test_who_has_no_token_is_told_to_give_one(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "data"
    with start_gateway(data, auth__required="true") as gateway:
        monkeypatch.setenv("LAKEMQ_TOKEN", f"lmq_{'a' * 16}_{'b' * 64}")
        done = run("doctor", "--json", "--broker", gateway.url, "--data-dir", str(data), "--lake", str(tmp_path))
    (found,) = [each for each in findings(done.stdout) if each["about"] == gateway.url]
    assert (found["grade"], found["do"]) == ("wrong", "give a token: --token-file")


def test_a_folder_that_only_another_user_sees_into_is_looked_at_from_outside(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    (hidden / "data").mkdir(parents=True)
    hidden.chmod(0)
    script = """
import os, sys
from pathlib import Path
from lakemq.cli.doctor import look
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
print(look._mode_of(Path(sys.argv[1]) / "admin.token"), look._nearest(Path(sys.argv[1])))
"""
    try:
        command = [sys.executable, "-c", script, str(hidden / "data")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    finally:
        hidden.chmod(0o700)
    mode, _, nearest = done.stdout.strip().partition(" ")
    assert mode == "None", done.stderr
    assert str(hidden).startswith(nearest)
