"""How a client finds the jobs' Spark Connect server, and who may reach it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakemq import settings
from lakemq.jobs.session.discovery import FILE, Server, announce, find_server, read, server_url, withdraw
from lakemq.jobs.session.token_file import FILE as TOKEN_FILE
from lakemq.jobs.session.token_file import read_token
from lakemq.model.errors import SettingsError
from lakemq.settings import Sql


@pytest.fixture
def port() -> Iterator[int]:
    """Where somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def test_an_announced_server_is_found_until_it_is_withdrawn(tmp_path: Path, port: int) -> None:
    lake = tmp_path / "new"
    server = Server(f"sc://127.0.0.1:{port}", os.getpid())
    assert find_server(lake) is None
    announce(lake, server)
    assert find_server(lake) == server
    assert [file.name for file in lake.iterdir()] == [FILE]
    withdraw(lake)
    assert find_server(lake) is None


def test_what_the_server_wants_is_announced_apart_and_withdrawn_with_it(tmp_path: Path, port: int) -> None:
    announce(tmp_path, Server(f"sc://127.0.0.1:{port}", os.getpid(), "generated"))
    assert read_token(tmp_path) == "generated"
    assert "generated" not in (tmp_path / FILE).read_text()
    assert "generated" not in repr(Server("sc://127.0.0.1:1", 1, "generated"))
    withdraw(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_token_that_was_left_is_not_taken_for_that_of_a_server_with_a_set_one(tmp_path: Path, port: int) -> None:
    announce(tmp_path, Server(f"sc://127.0.0.1:{port}", os.getpid(), "of a killed process"))
    announce(tmp_path, Server(f"sc://127.0.0.1:{port}", os.getpid()))
    assert not (tmp_path / TOKEN_FILE).exists()


def test_where_nobody_listens_there_is_no_server(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    announce(tmp_path, Server(f"sc://127.0.0.1:{port}", os.getpid()))
    assert find_server(tmp_path) is None


def test_another_program_at_a_dead_servers_port_is_no_server(tmp_path: Path, port: int) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    announce(tmp_path, Server(f"sc://127.0.0.1:{port}", process.pid))
    assert find_server(tmp_path) is None


def test_a_server_on_another_machine_that_has_the_folder_too_is_no_server_here(tmp_path: Path, port: int) -> None:
    """Else whoever listens here, at the port that it has there, would be shown its token."""
    announce(tmp_path, Server(f"sc://127.0.0.1:{port}", os.getpid(), "t"))
    file = tmp_path / FILE
    said = json.loads(file.read_text())
    file.write_text(json.dumps(said | {"boot": "of another"}))
    assert find_server(tmp_path) is None
    file.write_text(json.dumps(said | {"boot": "of another", "url": f"sc://192.0.2.1:{port}"}))
    assert read(tmp_path) is not None
    file.write_text(json.dumps({key: said[key] for key in ("url", "pid")}))  # of an older lakemq
    assert find_server(tmp_path) is not None


def test_only_its_own_announcement_is_withdrawn(tmp_path: Path, port: int) -> None:
    announce(tmp_path, Server(f"sc://127.0.0.1:{port}", 1))
    withdraw(tmp_path)
    assert read(tmp_path) is not None


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"url": "sc://127.0.0.1:1"}', '{"url": "sc://h:1", "pid": "x"}', '{"url": "sc://[", "pid": 1}'],
)
def test_a_damaged_announcement_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE).write_text(content)
    assert find_server(tmp_path) is None


def test_clients_on_this_machine_get_an_address_of_it() -> None:
    assert server_url(Sql(), 15_002) == "sc://127.0.0.1:15002"
    assert server_url(Sql(host="0.0.0.0", token="t"), 1) == "sc://127.0.0.1:1"
    assert server_url(Sql(host="::1"), 1) == "sc://[::1]:1"
    assert Server("sc://[::1]:7", 1).address == ("::1", 7)


def test_a_token_is_not_in_the_conf_and_only_meanwhile_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    from lakemq.jobs.session.connect import server_conf, token_in_environment

    name = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
    assert "secret" not in "".join(server_conf(Sql(token="secret")).values())
    monkeypatch.delenv(name, raising=False)
    with token_in_environment(Sql(token="secret")):
        assert os.environ[name] == "secret"
    assert name not in os.environ
    made = set[str]()
    for _ in range(2):
        with token_in_environment(Sql()):
            made.add(os.environ[name])
    assert [len(each) for each in made] == [43, 43]
    monkeypatch.setenv(name, "the user's")
    with token_in_environment(None):
        assert name not in os.environ
    assert os.environ[name] == "the user's"


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "spark.example"])
def test_a_server_that_others_reach_needs_a_token(tmp_path: Path, host: str) -> None:
    with pytest.raises(SettingsError, match=r"sql\.token is needed"):
        settings.load(environment={"LAKEMQ_SQL__HOST": host})
    found = settings.load(environment={"LAKEMQ_SQL__HOST": host, "LAKEMQ_SQL__TOKEN": "t"})
    assert found.sql.host == host
    assert settings.load(environment={"LAKEMQ_SQL__HOST": "localhost"}).sql.token == ""


@pytest.mark.parametrize("token", ["of two\nlines", "a b", "schlüssel"])
def test_a_token_that_no_header_takes_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(SettingsError, match=r"sql\.token") as refused:
        settings.load(environment={"LAKEMQ_SQL__TOKEN": token})
    assert token not in str(refused.value)


def test_no_secret_is_in_what_settings_look_like() -> None:
    conf, options = {"spark.authenticate.secret": "s3cret"}, {"aws_secret_access_key": "s3cret"}
    keys = {"access_key_id": "s3cret", "secret_access_key": "s3cret", "session_token": "s3cret"}
    layer: settings.Layer = {
        "sql": {"token": "s3cret"},
        "spark": {"conf": conf},
        "lake": {"storage": keys},
        "fleet": {"leader": "object-store", "store": "s3://bucket/fleet", "store_options": options},
    }
    found = settings.load(environment={}, options=layer)
    assert (found.sql.token, found.spark.conf) == ("s3cret", conf)
    assert "s3cret" not in f"{found!r} {found}"
