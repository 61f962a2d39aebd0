"""The Spark of running jobs, as another user of the machine finds it: what it listens to, asks for and shows."""

from __future__ import annotations

import ipaddress
import json
import os
import socket
import stat
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from lakemq.jobs.session.discovery import Server, find_server
from lakemq.jobs.session.token_file import FILE, read_token
from lakemq.jobs.sql.connect_client import ConnectClient
from lakemq.jobs.sql.connect_session import connect_session
from lakemq.model.errors import SettingsError
from tests.cli.shell import Run
from tests.cli.site import SPARK_SECRET, WAIT_S_MAX, Site, wait_for
from tests.process_list import command_lines, processes_of

pytestmark = pytest.mark.timeout(500)

LISTENS = "0A"


class Listener(NamedTuple):
    program: str
    address: ipaddress.IPv4Address | ipaddress.IPv6Address
    port: int


@pytest.fixture(scope="module")
def server(site: Site) -> Server:
    found = find_server(site.folder / "lake")
    assert found is not None
    return found


@pytest.fixture(scope="module")
def token(site: Site) -> str:
    return read_token(site.folder / "lake")


@pytest.fixture(scope="module")
def client(server: Server, token: str) -> Iterator[ConnectClient]:
    with ConnectClient(server, token) as connected:
        yield connected


def listeners_of(pid: int) -> list[Listener]:
    """Where the process and all below it take connections, as Linux says."""
    owners: dict[str, str] = {}
    for each in processes_of(pid):
        name = Path(f"/proc/{each}/comm").read_text().strip()
        for descriptor in Path(f"/proc/{each}/fd").iterdir():
            try:
                target = str(descriptor.readlink())
            except FileNotFoundError:
                continue
            if target.startswith("socket:["):
                owners[target[8:-1]] = name
    return [
        Listener(owners[inode], _address(place.partition(":")[0]), int(place.partition(":")[2], 16))
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
        for place, state, inode in [(line.split()[1], line.split()[3], line.split()[9])]
        if state == LISTENS and inode in owners
    ]


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Of words of four bytes, each in the machine's order."""
    words = bytes.fromhex(text)
    raw = b"".join(words[at : at + 4][::-1] for at in range(0, len(words), 4))
    if len(raw) == 4:
        return ipaddress.IPv4Address(raw)
    address = ipaddress.IPv6Address(raw)
    return address.ipv4_mapped or address


def test_the_token_is_made_and_its_users_alone(site: Site, token: str) -> None:
    found = (site.folder / "lake" / FILE).stat()
    assert (stat.S_IMODE(found.st_mode), found.st_uid) == (0o600, os.geteuid())
    assert len(token) == 43


def test_who_shows_another_token_is_answered_nothing(server: Server, token: str) -> None:
    for wrong in ("", "x", token[:-1], token + "x"):
        with ConnectClient(server, wrong) as stranger, pytest.raises(SettingsError, match="another token") as refused:
            stranger.run("SELECT 1")
        assert token not in str(refused.value)


def test_lakemq_sql_finds_the_token_and_asks_as_a_user_without(
    site: Site, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in site.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    done = run("sql", "SELECT 7 AS n", "--format", "json")
    assert (done.code, json.loads(done.stdout)) == (0, {"n": 7}), done.stderr
    assert done.stderr.endswith("with the rights of this user: there is no lake in lake\n")
    monkeypatch.chdir(site.folder)
    done = run("sql", "SELECT 7 AS n", "--format", "json")
    assert (done.code, json.loads(done.stdout)) == (0, {"n": 7}), done.stderr
    done = run("sql", "SELECT topic,\n  nope FROM live.messages")
    assert done.code == 1
    said, line, caret = done.stderr.splitlines()
    assert said.startswith("lakemq: line 2, column 3: A column, variable, or function parameter with name `nope`")
    assert (line, caret) == ("    nope FROM live.messages", "    ^")
    done = run("sql", "SELECT count(*) AS n FROM live.messages WHERE topic = '%DLQ%g'", "--format", "json")
    assert (json.loads(done.stdout), done.code) == ({"n": 0}, 0)
    assert "live.all_messages" in done.stderr
    file = Path("lake", FILE)
    file.rename("away")
    try:
        done = run("sql", "SELECT 7 AS n", "--format", "json")
        assert (done.code, json.loads(done.stdout)) == (0, {"n": 7}), done.stderr
        assert "asking the jobs over HTTP, with the rights of this user: the SQL server of these" in done.stderr
        assert f"there is none in {file}" in done.stderr
    finally:
        Path("away").rename(file)
    monkeypatch.setenv("LAKEMQ_SQL__TOKEN", "s3cret-but-wrong")
    done = run("sql", "SELECT 7 AS n")
    assert done.code != 0
    assert "another token" in done.stderr
    assert "s3cret" not in done.stdout + done.stderr


def test_jobs_that_are_still_starting_are_waited_for(site: Site, server: Server, tmp_path: Path) -> None:
    """Each command started a Spark of its own, though the jobs' was about to be there."""
    assert server.pid
    commands = (["sql", "SELECT 7 AS n"], ["replay", "--where", "topic = 'orders'", "--to", "again", "--dry-run"])
    file = site.folder / "lake" / "_connect.json"
    file.rename(tmp_path / "not yet")
    logs = [tmp_path / arguments[0] for arguments in commands]
    started = [site.start(arguments, log) for arguments, log in zip(commands, logs, strict=True)]
    try:
        for process, log in zip(started, logs, strict=True):
            wait_for(lambda log=log: "still starting; waiting for them" in log.read_text(), log, process)
    except BaseException:
        for process in started:
            process.kill()
            process.wait()
        raise
    finally:
        (tmp_path / "not yet").rename(file)
    codes = [process.wait(WAIT_S_MAX) for process in started]
    for code, log in zip(codes, logs, strict=True):
        assert code == 0, log.read_text()
        assert "starting Spark here" not in log.read_text()


def test_pysparks_own_session_shows_the_token(server: Server, token: str) -> None:
    session = connect_session(server, token)
    assert session.range(3).count() == 3
    session.stop()


def test_all_that_the_jobs_listen_to_is_loopback(server: Server, client: ConnectClient) -> None:
    list(client.run("SELECT body_text(body) FROM live.messages").batches)  # so that Python's workers are there
    found = listeners_of(server.pid)
    assert server.address[1] in {each.port for each in found}
    assert {each.program for each in found} >= {"java"}
    assert [each for each in found if not each.address.is_loopback] == []


def test_sparks_own_port_takes_no_message_from_who_has_not_its_secret(client: ConnectClient) -> None:
    (rows,) = client.run("SET spark.driver.port").batches
    (row,) = rows.to_pylist()
    request = struct.pack(">Bqi", 3, 1, 5) + b"\0" * 5  # an RpcRequest of Spark's protocol, with 5 bytes in it
    with socket.create_connection(("127.0.0.1", int(row["value"])), WAIT_S_MAX) as connection:
        connection.sendall(struct.pack(">q", 8 + len(request)) + request)
        answer = connection.recv(2**16)
    assert b"SaslMessage" in answer


def test_secrets_are_in_no_command_line_log_metric_or_answer(site: Site, server: Server, token: str) -> None:
    shown = command_lines(server.pid)
    shown += [site.http.get(path).content for path in ("/metrics", "/v1/broker", "/readyz")]
    shown += [(site.folder / "jobs.log").read_bytes(), (site.folder / "lake" / "_connect.json").read_bytes()]
    assert any(b"spark.authenticate=true" in each for each in shown)
    for secret in (token, SPARK_SECRET):
        assert [each for each in shown if secret.encode() in each] == []


def test_a_secret_of_sparks_conf_gets_there_all_the_same_and_is_not_shown(client: ConnectClient) -> None:
    (rows,) = client.run("SET spark.hadoop.lakemq.test.secret").batches
    (row,) = rows.to_pylist()
    assert "redacted" in row["value"]
    for batch in client.run("SET").batches:
        assert SPARK_SECRET not in str(batch.to_pylist())
