from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from lakemq.storage.backup.manifest import RESTORING
from lakemq.testing import start_gateway
from tests.gateway.http_client import connect, produce, pull_all, tear_tail


def run(data_dir: Path, **settings: object) -> subprocess.CompletedProcess[str]:
    """A gateway that is expected to end by itself."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LAKEMQ_")}
    environment |= {"LAKEMQ_GATEWAY__PORT": "0", "LAKEMQ_STORAGE__DATA_DIR": str(data_dir)}
    environment |= {f"LAKEMQ_{name.upper()}": str(value) for name, value in settings.items()}
    command = [sys.executable, "-m", "lakemq.gateway"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=150, check=False)


def assert_one_line(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert (done.returncode, done.stdout) == (1, "")
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    for word in words:
        assert word in lines[0]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("storage__bogus", "1", ["storage.bogus", "unknown"]),
        ("bogus__port", "1", ["BOGUS", "no setting"]),
        ("gateway__port", "x", ["gateway.port"]),
        ("gateway__port", "65536", ["gateway.port"]),
        ("storage__flush", "sometimes", ["storage.flush"]),
        ("storage__segment_bytes", "-1", ["storage.segment_bytes"]),
        ("gateway__message_bytes_max", str(65 * 1024 * 1024), ["gateway.message_bytes_max"]),
        ("topics__default_queues", "2000", ["topics.default_queues"]),
        ("broker__name", "a b", ["broker.name"]),
        ("gateway__host", "no.such.host.invalid", ["no.such.host.invalid"]),
        ("gateway__host", "a..b", ["a..b"]),
        ("gateway__host", "192.0.2.1", ["192.0.2.1"]),
    ],
)
def test_a_setting_that_can_not_be_is_one_line_and_exit_code_1(
    tmp_path: Path, name: str, value: str, words: list[str]
) -> None:
    assert_one_line(run(tmp_path / "data", auth__insecure="true", **{name: value}), *words)
    assert not (tmp_path / "data" / "commitlog").exists()


def test_a_folder_that_was_half_restored_is_no_new_broker_s(tmp_path: Path) -> None:
    """Regression: it began a log without any message there."""
    (tmp_path / RESTORING).mkdir()
    assert_one_line(run(tmp_path), f"a restore to {tmp_path} did not come to its end")
    assert not (tmp_path / "commitlog").exists()


def test_a_port_in_use_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert_one_line(run(tmp_path, gateway__port=port), str(port), "in use")


def test_a_data_directory_that_can_not_be_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert_one_line(run(file), str(file))
    assert_one_line(run(file / "below"), str(file))


def test_a_second_gateway_on_a_directory_refuses_and_names_the_holder(tmp_path: Path) -> None:
    with start_gateway(tmp_path, broker__name="first") as gateway, connect(gateway) as http:
        assert_one_line(run(tmp_path, broker__name="second"), "in use", "first", str(gateway.pid))
        produce(http, "t", "still served")
    with start_gateway(tmp_path):
        pass


def test_damage_in_the_middle_is_refused_with_segment_and_offset(tmp_path: Path) -> None:
    gateway = start_gateway(tmp_path)
    with connect(gateway) as http:
        for number in range(20):
            produce(http, "t", f"{number}" * 100)
    gateway.kill()
    (segment,) = (tmp_path / "commitlog").glob("*.log")
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)
    done = run(tmp_path)
    assert_one_line_of_log(done, segment.name, "offset")
    assert segment.read_bytes() == data


def assert_one_line_of_log(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    last = done.stderr.splitlines()[-1]
    for word in words:
        assert word in last


def test_a_torn_tail_is_cut_and_said(tmp_path: Path) -> None:
    gateway = start_gateway(tmp_path, storage__flush_interval_ms=60_000)
    with connect(gateway) as http:
        produce(http, "t", "kept", ack="sync")
        produce(http, "t", "torn")
    gateway.kill()
    tear_tail(tmp_path)
    with start_gateway(tmp_path) as gateway, connect(gateway) as http:
        assert any("torn tail" in line and "bytes" in line for line in gateway.log)
        assert [message["body"] for message in pull_all(http, "t")] == ["kept"]


def test_it_listens_on_loopback_unless_told_otherwise(tmp_path: Path) -> None:
    with start_gateway(tmp_path) as gateway:
        assert gateway.url.startswith("http://127.0.0.1:")
    with start_gateway(tmp_path, gateway__host="0.0.0.0", auth__insecure="true") as gateway:
        assert gateway.url.startswith("http://0.0.0.0:")


def test_it_listens_on_ipv6_too(tmp_path: Path) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")
    with start_gateway(tmp_path, gateway__host="::1") as gateway, connect(gateway) as http:
        assert http.get("/healthz").status_code == 200


def test_its_data_is_for_its_user_alone(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "commitlog").mkdir(parents=True)
    for path in (data, data / "commitlog"):
        path.chmod(0o755)
    with start_gateway(data, sinks__keep_ms=1_000) as gateway, connect(gateway) as http:
        produce(http, "t", "x", ack="sync")
        modes = dict[Path, int]()
        for path in [data, *data.rglob("*")]:
            with suppress(FileNotFoundError):  # one that was written beside another has taken its place
                modes[path] = path.stat().st_mode & 0o777
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}
    assert data / "LOCK" in modes
