"""Who may register at a name server that has tokens: a real one, real brokers."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from lakemq.client import Producer
from lakemq.contract.grammar import Found
from lakemq.contract.nameserver_routes import HEAR
from lakemq.model.errors import SettingsError, Unauthenticated
from lakemq.model.token import make_token
from lakemq.nameserver.access import Access
from lakemq.settings import load
from lakemq.testing import NameServerProcess, gateway_process, start_gateway, start_nameserver
from lakemq.web.failures import BURST
from lakemq.wire.registering import RegisteringToken, is_private, read_tokens, tokens_for
from tests.gateway.http_client import Connection, is_problem
from tests.nameserver.asking import body_of, connect, hear, path_of, routes, told, wait_until
from tests.wire.guarded import guarded

FIRST, SECOND, OTHER = (make_token(bytes([number]) * 40).text for number in range(1, 4))
SETTING = "fleet.nameserver_token_file"


def write(path: Path, *tokens: str, mode: int = 0o600) -> Path:
    """The file of these tokens, in place of the one that is there."""
    new = path.with_name("new")
    new.write_text("".join(f"{each}\n" for each in tokens))
    new.chmod(mode)
    return new.replace(path)


class Scene(NamedTuple):
    """A name server, and the file of its tokens."""

    process: NameServerProcess
    file: Path

    def ask(self, token: str = "") -> httpx.Client:
        http = connect(self.process)
        http.headers.update({"Authorization": f"Bearer {token}"} if token else {})
        return http


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    file = write(tmp_path_factory.mktemp("registering") / "tokens", FIRST, SECOND)
    with start_nameserver(nameserver__token_file=file, nameserver__probe_ms=0) as process:
        yield Scene(process, file)


def test_what_changes_its_table_takes_a_token_and_what_reads_it_none(scene: Scene, broker: str) -> None:
    body = body_of(told(broker))
    with scene.ask() as nobody, scene.ask(OTHER) as stranger, scene.ask(FIRST) as one, scene.ask(SECOND) as other:
        for each in (nobody, stranger):
            for answer in (each.put(path_of(broker), json=body), each.delete(path_of(broker))):
                assert is_problem(answer, 401, "unauthenticated")
                assert answer.headers["www-authenticate"] == "Bearer"
        assert routes(nobody, topic=broker)["topics"] == []
        hear(one, broker, broker)
        for each in (nobody, stranger):
            assert is_problem(each.put(path_of(broker), json=body_of(told("mine"))), 401, "unauthenticated")
            assert is_problem(each.delete(path_of(broker)), 401, "unauthenticated")
            assert [found["broker"] for found in routes(each, topic=broker)["topics"]] == [broker]
            assert all(each.get(path).is_success for path in ("/healthz", "/metrics", "/v1/cluster"))
        hear(other, broker, broker, queues=8)
        assert other.delete(path_of(broker)).json() == {}
        assert routes(nobody, topic=broker)["topics"] == []


def test_what_is_no_authorization_is_refused_before_the_body_is_read(scene: Scene, broker: str) -> None:
    with scene.ask() as http:
        for value in ("Bearer", "Bearer x", FIRST, "Basic eDp5", f"Bearer {FIRST}x", f"Bearer {FIRST[:-1]}"):
            answer = http.put(path_of(broker), content=b"{", headers={"Authorization": value})
            assert is_problem(answer, 401, "unauthenticated")
        twice = [("Authorization", f"Bearer {FIRST}"), ("Authorization", f"Bearer {OTHER}")]
        answer = http.put(path_of(broker), json={}, headers=httpx.Headers(twice))
        assert is_problem(answer, 400, "invalid_request")
    assert not any("lmq_" in line for line in scene.process.log)


def test_who_tries_too_many_tokens_waits_and_who_has_one_doesnt(scene: Scene, broker: str) -> None:
    with Connection(scene.process, "127.0.0.9") as connection:  # type: ignore[arg-type]

        def ask(token: str) -> int:
            head = f"DELETE {path_of(broker)} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
            connection.send(head.encode())
            answer = connection.answer()
            assert answer is not None
            return answer.status

        tried = [ask(f"lmq_{number:016x}_{'0' * 64}") for number in range(2 * BURST)]
        assert tried[0] == 401
        assert 429 in tried
        assert ask(FIRST) == 200, "it is nobody's fault who has the same address"


def test_tokens_are_changed_for_others_while_it_runs(tmp_path: Path, broker: str) -> None:
    file = write(tmp_path / "tokens", FIRST)
    with start_nameserver(nameserver__token_file=file, nameserver__probe_ms=0) as process:
        scene = Scene(process, file)
        with scene.ask(FIRST) as old, scene.ask(SECOND) as new:

            def statuses() -> tuple[int, int]:
                both = (old.delete(path_of(broker)), new.delete(path_of(broker)))
                return both[0].status_code, both[1].status_code

            assert statuses() == (200, 401)
            write(file, SECOND, FIRST)
            wait_until(lambda: statuses() == (200, 200))
            write(file, SECOND)
            wait_until(lambda: statuses()[0] in (401, 429))
            assert statuses()[1] == 200


def test_a_file_that_has_no_tokens_any_more_changes_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = write(tmp_path / "tokens", FIRST)
    access = Access(file, lambda: 0.0)
    found = Found(HEAR, ("b", "0"))
    scope = {"client": ("127.0.0.1", 1), "headers": [(b"authorization", f"Bearer {FIRST}".encode())]}
    for change in (lambda: write(file, "nothing"), lambda: write(file, FIRST, mode=0o644), file.unlink):
        change()
        caplog.clear()
        for _ in range(2):
            access.look()
            access.admit(found, scope)
        assert [record.getMessage().startswith("the tokens stay unchanged: ") for record in caplog.records] == [True]
    write(file, SECOND)
    access.look()
    with pytest.raises(Unauthenticated):
        access.admit(found, scope)


def test_it_doesnt_start_with_a_file_that_others_read_or_that_has_no_tokens(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    for says, make in (
        ("can't be read: No such file", lambda: None),
        ("chmod 600", lambda: write(file, FIRST, mode=0o640)),
        ("is to have tokens", lambda: write(file)),
        ("is to have tokens", lambda: write(file, *[FIRST] * 65)),
        ("is to have tokens", lambda: write(file, FIRST, "secretive")),
        ("is to have tokens", lambda: write(file, f"= {FIRST}")),
        ("is to have tokens", lambda: write(file, f"broker a = {FIRST}")),
        ("is to have tokens", lambda: write(file, f"broker*a = {FIRST}")),
        ("is to have tokens", lambda: write(file, f"{','.join(['a'] * 17)} = {FIRST}")),
        ("is to have tokens", lambda: write(file, "broker-a = secretive")),
    ):
        make()
        with pytest.raises(SettingsError, match=says) as refused:
            read_tokens(file, SETTING)
        assert f"{SETTING}: {file}" in refused.value.detail
        assert "secretive" not in refused.value.detail
    with pytest.raises(RuntimeError, match=r"nameserver\.token_file: .* is to have tokens"):
        start_nameserver(nameserver__token_file=file)
    with pytest.raises(RuntimeError, match=r"fleet\.nameserver_token_file: .* is to have tokens"):
        start_gateway(tmp_path / "data", fleet__nameserver_token_file=file)


@pytest.mark.parametrize(
    ("mode", "owner", "user", "is_so"),
    [
        (0o600, 5, 5, True),
        (0o400, 0, 0, True),
        (0o640, 5, 5, False),
        (0o604, 5, 5, False),
        (0o440, 0, 0, False),
        (0o440, 0, 5, True),
        (0o460, 0, 5, False),
        (0o444, 0, 5, False),
        (0o600, 6, 5, False),
        (0o600, 6, 0, False),
    ],
)
def test_a_file_is_private_where_nobody_else_reads_or_writes_it(mode: int, owner: int, user: int, is_so: bool) -> None:
    assert is_private(0o100000 | mode, owner, user) is is_so


def test_a_folder_or_a_pipe_holds_no_tokens(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    subprocess.run(["mkfifo", "-m", "600", pipe], check=True)
    for path in (tmp_path, pipe):
        with pytest.raises(SettingsError, match=r"is no file|can't be read"):
            read_tokens(path, SETTING)
    link = tmp_path / "link"
    link.symlink_to(write(tmp_path / "tokens", FIRST))
    assert [each.token.text for each in read_tokens(link, SETTING)] == [FIRST]


def test_a_token_speaks_for_brokers_of_its_names_alone(tmp_path: Path, broker: str) -> None:
    file = write(tmp_path / "tokens", f"{broker}, {broker}-x* = {FIRST}", f"*={SECOND}", OTHER)
    with start_nameserver(nameserver__token_file=file, nameserver__probe_ms=0) as process:
        scene = Scene(process, file)
        with scene.ask(FIRST) as limited, scene.ask(SECOND) as of_all, scene.ask(OTHER) as old:
            for name in (broker, f"{broker}-x", f"{broker}-xy"):
                hear(limited, name, broker)
            theirs = f"{broker}-y"
            for http in (of_all, old):
                hear(http, theirs, broker)
            stolen = body_of(told(broker, epoch=1_000))
            assert is_problem(limited.put(path_of(theirs), json=stolen), 403, "forbidden")
            assert is_problem(limited.delete(path_of(theirs)), 403, "forbidden")
            assert theirs in {each["broker"] for each in routes(limited, topic=broker)["topics"]}
            assert limited.delete(path_of(broker)).is_success


def test_a_broker_shows_the_tokens_for_its_name(tmp_path: Path) -> None:
    file = write(tmp_path / "tokens", f"broker-a = {FIRST}", f"broker-b* = {SECOND}", f"broker-b-2 = {OTHER}")
    assert [each.text for each in tokens_for("broker-b-2", file, SETTING)] == [SECOND, OTHER]
    assert RegisteringToken(file, SETTING, "broker-b").headers("https://a") == {"Authorization": f"Bearer {SECOND}"}
    with pytest.raises(SettingsError, match="has no token for a broker of the name 'broker-c'"):
        tokens_for("broker-c", file, SETTING)
    with pytest.raises(RuntimeError, match="has no token for a broker of the name 'broker-c'"):
        start_gateway(tmp_path / "data", broker__name="broker-c", fleet__nameserver_token_file=file)


# Brokers -------------------------------------------------------------------------------------


def registered(http: httpx.Client, broker: str) -> list[str]:
    return [each["broker"] for each in http.get("/v1/cluster").json()["brokers"] if each["broker"] == broker]


def degraded(url: str) -> list[str]:
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as http:
        return http.get("/readyz").json().get("degraded", [])


def test_a_broker_registers_by_its_token_and_clients_find_it(scene: Scene, tmp_path: Path, broker: str) -> None:
    """The first of its tokens is none that the name server takes."""
    file = write(tmp_path / "tokens", OTHER, SECOND)
    options: dict[str, Any] = {"fleet__nameservers": scene.process.url, "broker__name": broker}
    with scene.ask() as http:
        with start_gateway(tmp_path / "data", fleet__nameserver_token_file=file, **options) as gateway:
            wait_until(lambda: registered(http, broker))
            assert degraded(gateway.url) == []
            with Producer(nameservers=scene.process.url) as producer:
                assert producer.send(broker, b"x").message_id
        assert not registered(http, broker), "it said goodbye"
        with start_gateway(tmp_path / "data", **options) as gateway:
            wait_until(lambda: any("this takes a token" in line for line in degraded(gateway.url)))
            assert not registered(http, broker)


def test_a_broker_shows_name_servers_no_token_of_its_environment(tmp_path: Path) -> None:
    def spawn(command: Sequence[str], environment: Mapping[str, str]) -> Any:
        return gateway_process.spawn_by_default(command, {**environment, "LAKEMQ_TOKEN": FIRST})

    file = write(tmp_path / "tokens", SECOND)
    for options, shown in (({}, None), ({"fleet__nameserver_token_file": file}, f"Bearer {SECOND}")):
        with guarded() as peer:
            peer.valid = SECOND
            options = {**options, "fleet__nameservers": peer.url}
            with start_gateway(tmp_path / "data", spawn=spawn, **options):
                wait_until(lambda peer=peer: peer.heard)
            assert set(peer.heard) == {shown}


def test_a_token_that_is_refused_gives_way_to_the_next_and_to_what_the_file_has_then(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    token = RegisteringToken(file, SETTING, "broker-a")
    assert token.headers("http://127.0.0.1:1") == {}
    with pytest.raises(SettingsError, match="can't be read"):
        token.refused("", {}, b"")
    write(file, FIRST, SECOND)
    tried: list[Any] = [{}]
    for _ in range(3):
        assert token.refused("", tried[-1], b"") is None
        tried.append(dict(token.headers("http://127.0.0.1:1")))
    assert tried[1:] == [{"Authorization": f"Bearer {each}"} for each in (FIRST, SECOND, FIRST)]
    write(file, OTHER)
    assert token.refused("", tried[-1], b"") is None
    assert token.headers("http://127.0.0.1:1") == {"Authorization": f"Bearer {OTHER}"}
    note = token.refused("", token.headers("http://127.0.0.1:1"), b"")
    assert note is not None
    assert str(file) in note
    assert "lmq_" not in note + repr(token)


def test_beyond_loopback_it_needs_tokens(tmp_path: Path) -> None:
    options: dict[str, Any] = {"nameserver": {"host": "0.0.0.0"}}
    with pytest.raises(SettingsError, match=r"set nameserver\.token_file to a file of tokens"):
        load(environment={}, options=options)
    assert load(environment={}, options={**options, "auth": {"insecure": True}}).nameserver.token_file is None
