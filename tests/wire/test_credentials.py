"""Which token goes where: given, of the environment, or found on this machine."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from lakemq.client.transport import Transport
from lakemq.contract import routes
from lakemq.model.errors import InvalidRequest, LakemqError, SettingsError, Unauthenticated
from lakemq.wire.connections import Connections, NoAnswer
from lakemq.wire.credentials import ADDRESSES_MAX, NOBODY, Credentials, Stranger
from lakemq.wire.found_token import FileFacts, NotFound, check_facts, check_listener, find_token, read_own_token
from lakemq.wire.name_servers import NameServers
from tests.wire.guarded import OTHER, SECRETS, TOKEN, Guarded, guarded, write_token

ROOT = 0
STRANGER = 4242


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LAKEMQ_TOKEN", "LAKEMQ_TOKEN_FILE", "LAKEMQ_FOUND_TOKENS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def peer() -> Iterator[Guarded]:
    with guarded() as begun:
        yield begun


def ask(connections: Connections) -> LakemqError | None:
    with closing(connections):
        return connections.ask(routes.BROKER.at(), timeout_s=60).error()


def said(error: LakemqError | None) -> str:
    assert isinstance(error, Unauthenticated)
    assert not any(secret in str(error) for secret in SECRETS)
    return error.detail


def test_a_token_that_is_given_goes_before_the_environment_and_its_token_before_its_file(
    peer: Guarded, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LAKEMQ_TOKEN_FILE", write_token(tmp_path, "no token", 0o644, "any name"))
    monkeypatch.setenv("LAKEMQ_TOKEN", OTHER)
    assert ask(Connections(peer.url, Credentials(TOKEN))) is None
    assert said(ask(Connections(peer.url))) == "who asks? (it is LAKEMQ_TOKEN)"
    monkeypatch.setenv("LAKEMQ_TOKEN", "")
    with pytest.raises(SettingsError, match=r"LAKEMQ_TOKEN_FILE names, .*any name, is no token") as refused:
        Connections(peer.url)
    assert "no token\n" not in str(refused.value)
    file = write_token(tmp_path, TOKEN, 0o644, "any name")
    assert ask(Connections(peer.url)) is None, "a secret of a container may be read by others"
    monkeypatch.setenv("LAKEMQ_TOKEN_FILE", f"{file}-none")
    with pytest.raises(SettingsError, match="can't be read: No such file"):
        Connections(peer.url)
    assert peer.heard == [f"Bearer {TOKEN}", f"Bearer {OTHER}", f"Bearer {TOKEN}"]


def test_a_file_of_the_environment_s_is_read_again_when_its_token_is_refused(
    peer: Guarded, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LAKEMQ_TOKEN_FILE", write_token(tmp_path, OTHER))
    connections = Connections(peer.url)
    assert "it is LAKEMQ_TOKEN_FILE=" in said(ask(connections))
    write_token(tmp_path, TOKEN)
    assert ask(connections) is None
    assert ask(connections) is None
    assert peer.heard == [f"Bearer {each}" for each in (OTHER, OTHER, TOKEN, TOKEN)]


@pytest.mark.parametrize("token", ["", "secret-text", "lmq_1_short", TOKEN + "\nX: y", TOKEN[:-1] + "é", TOKEN * 4])
def test_what_is_no_token_is_refused_at_once_and_not_shown(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidRequest) as refused:
        Credentials(token)
    assert str(refused.value) == "token is no token: one is lmq_<id>_<secret>"
    if token:
        monkeypatch.setenv("LAKEMQ_TOKEN", token)
        with pytest.raises(SettingsError) as of_environment:
            Credentials()
        assert str(of_environment.value) == "LAKEMQ_TOKEN is no token: one is lmq_<id>_<secret>"


def test_nothing_shows_a_token_and_only_one_that_was_given_is_pickled(monkeypatch: pytest.MonkeyPatch) -> None:
    given = Credentials(TOKEN)
    assert repr(given) == "Credentials(the token that was given)"
    again = pickle.loads(pickle.dumps(given))
    assert again.headers("http://127.0.0.1:1") == {"Authorization": f"Bearer {TOKEN}"}
    assert repr(again) == repr(given)
    monkeypatch.setenv("LAKEMQ_TOKEN", OTHER)
    pickled = pickle.dumps(Credentials())
    assert not any(secret.encode() in pickled for secret in SECRETS)
    monkeypatch.delenv("LAKEMQ_TOKEN")
    elsewhere = pickle.loads(pickled)
    assert elsewhere.headers("http://127.0.0.1:1") == {}
    assert repr(elsewhere) == "Credentials(none)"


def test_the_token_of_this_machine_is_found_once_and_kept_for_its_address(peer: Guarded, tmp_path: Path) -> None:
    peer.token_file = write_token(tmp_path)
    connections = Connections(peer.url)
    with closing(connections):
        sent = connections.ask(routes.COMPACTED.at(), body=b"content", timeout_s=60)
    assert sent.error() is None
    assert peer.bodies == [b"content", b"content"]
    assert ask(connections) is None
    assert peer.heard == [None, f"Bearer {TOKEN}", f"Bearer {TOKEN}"]
    with guarded() as other:
        assert ask(Connections(other.url, connections.credentials)) is not None
        assert other.heard == [None], "at another address it isn't sent"
        other.token_file = peer.token_file
        assert ask(Connections(other.url, connections.credentials)) is None
    name = peer.url.replace("127.0.0.1", "localhost")
    assert ask(Connections(name)) is None


def test_a_token_that_was_found_is_read_anew_once_when_it_is_refused(peer: Guarded, tmp_path: Path) -> None:
    peer.token_file = write_token(tmp_path)
    connections = Connections(peer.url)
    assert ask(connections) is None
    peer.valid = OTHER
    assert "refused too; put a token into LAKEMQ_TOKEN" in said(ask(connections))
    peer.token_file = write_token(tmp_path / "another", OTHER)
    assert ask(connections) is None
    assert peer.heard[-1] == f"Bearer {OTHER}"
    peer.heard.clear()
    peer.valid = "nothing"
    said(ask(connections))
    assert len(peer.heard) == 1, "it isn't sent again when it is the one that was refused"


def test_nothing_is_looked_for_where_a_token_was_given(peer: Guarded, tmp_path: Path) -> None:
    peer.token_file = write_token(tmp_path)
    assert said(ask(Connections(peer.url, Credentials(OTHER)))) == "who asks? (it is the token that was given)"
    assert said(ask(Connections(peer.url, NOBODY))) == "who asks?"
    assert peer.heard == [f"Bearer {OTHER}", None]


@pytest.mark.parametrize("named", [None, 7, "", "admin.token", "/etc/passwd", "/x/admin.token\0", "/x/y/admin.token"])
def test_an_answer_that_names_nothing_to_be_read_says_how_to_get_on(peer: Guarded, named: object) -> None:
    peer.token_file = named
    assert "LAKEMQ_TOKEN" in said(ask(Connections(peer.url)))
    assert peer.heard == [None]


def _link(folder: Path) -> str:
    target = write_token(folder, name="elsewhere")
    (folder / "admin.token").symlink_to(target)
    return str(folder / "admin.token")


def _pipe(folder: Path) -> str:
    os.mkfifo(folder / "admin.token", 0o600)
    return str(folder / "admin.token")


def _folder(folder: Path) -> str:
    (folder / "admin.token").mkdir(mode=0o700)
    return str(folder / "admin.token")


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (_link, "can't be read: Too many levels"),
        (_pipe, "is no file"),
        (_folder, "is no file"),
        (lambda folder: write_token(folder, mode=0o640), "others (mode 0640)"),
        (lambda folder: write_token(folder, mode=0o602), "others (mode 0602)"),
        (lambda folder: write_token(folder, TOKEN + " " * 200), "larger"),
        (lambda folder: write_token(folder, "lmq_1_short"), "holds no token"),
        (lambda folder: write_token(folder, "é" * 30), "holds no token"),
        (lambda folder: write_token(folder, name="other.token"), "no whole path to a file admin.token"),
    ],
)
def test_a_file_that_isn_t_this_user_s_secret_is_not_taken(
    peer: Guarded, tmp_path: Path, make: Callable[[Path], str], why: str
) -> None:
    peer.token_file = make(tmp_path)
    text = said(ask(Connections(peer.url)))
    assert str(peer.token_file) in text
    assert why in text
    assert "put a token into LAKEMQ_TOKEN" in text
    assert peer.heard == [None]


def test_a_file_of_another_user_is_not_taken() -> None:
    with pytest.raises(NotFound, match=r"is of another user \(uid 0\) than this one \(uid 1000\)"):
        check_facts("/data/admin.token", FileFacts(0o100600, ROOT, 80), 1000)
    with pytest.raises(NotFound, match="is of another user"):
        check_facts("/data/admin.token", FileFacts(0o100600, STRANGER, 80), ROOT)
    check_facts("/data/admin.token", FileFacts(0o100600, STRANGER, 80), STRANGER)


@pytest.mark.skipif(os.geteuid() != ROOT, reason="only root can give files away")
def test_root_takes_no_file_that_another_user_has_made(tmp_path: Path) -> None:
    file = write_token(tmp_path)
    os.chown(file, STRANGER, STRANGER)
    with pytest.raises(NotFound, match=f"another user .uid {STRANGER}."):
        read_own_token(file)


def listening(folder: Path, uid: int, address: str = "0100007F", port: int = 8080) -> Path:
    """As /proc/net, with one listener."""
    row = f" 0: {address}:{port:04X} 00000000:0000 0A 0:0 00:0 0 {uid} 0 1 1 0\n"
    (folder / "tcp").write_text("head\n" + row)
    return folder


def test_the_token_goes_to_no_port_where_another_user_listens(tmp_path: Path) -> None:
    file, mine = write_token(tmp_path / "data"), os.geteuid()
    for uid in (mine, ROOT):
        assert find_token("http://127.0.0.1:8080", file, listening(tmp_path, uid)).text == TOKEN
        assert find_token("http://127.0.0.1:8080", file, listening(tmp_path, uid, "00000000")).text == TOKEN
    for address in ("0100007F", "00000000"):
        with pytest.raises(NotFound, match=f"another user .uid {STRANGER}. than this one"):
            find_token("http://127.0.0.1:8080", file, listening(tmp_path, STRANGER, address))
    with pytest.raises(NotFound, match="listens on port 8080"):
        find_token("http://127.0.0.1:8080", file, listening(tmp_path, mine, port=8081))
    with pytest.raises(NotFound, match=r"listens on port 80$"):
        check_listener("http://127.0.0.1", tmp_path / "no proc")
    (tmp_path / "tcp6").write_text("head\nnonsense\n")
    with pytest.raises(NotFound, match="can't find out which user listens"):
        find_token("http://127.0.0.1:8080", file, listening(tmp_path, mine))


@pytest.mark.parametrize(
    "address", ["http://10.0.0.1:8080", "http://example.com:8080", "http://127.0.0.1.example:8080"]
)
def test_the_token_is_found_for_no_other_machine(address: str, tmp_path: Path) -> None:
    credentials = Credentials()
    content = f'{{"token_file": "{write_token(tmp_path)}"}}'.encode()
    assert "by an address of this machine's own" in str(credentials.refused(address, {}, content))
    assert credentials.headers(address) == {}


def test_who_takes_the_port_afterwards_is_not_sent_the_token(peer: Guarded, tmp_path: Path) -> None:
    peer.token_file = write_token(tmp_path / "data")
    port = int(peer.url.rpartition(":")[2])
    connections = Connections(peer.url, Credentials(net=listening(tmp_path, os.geteuid(), port=port)))
    assert ask(connections) is None
    listening(tmp_path, STRANGER, port=port)
    heard = len(peer.heard)
    with pytest.raises(NoAnswer, match="another user") as refused:
        ask(connections)
    assert not refused.value.sent
    assert isinstance(refused.value.__cause__, Stranger)
    assert len(peer.heard) == heard


def test_the_addresses_that_tokens_were_found_for_are_bounded(tmp_path: Path) -> None:
    folder = tmp_path / "net"
    folder.mkdir()
    rows = [f" 0: 0100007F:{port:04X} 0:0 0A 0:0 00:0 0 {os.geteuid()} 0\n" for port in range(1, ADDRESSES_MAX + 10)]
    (folder / "tcp").write_text("head\n" + "".join(rows))
    content = f'{{"token_file": "{write_token(tmp_path)}"}}'.encode()
    credentials = Credentials(net=folder)
    addresses = [f"http://127.0.0.1:{port}" for port in range(1, ADDRESSES_MAX + 10)]
    for address in addresses:
        assert credentials.refused(address, {}, content) is None
    assert sum(bool(credentials.headers(address)) for address in addresses) == ADDRESSES_MAX


def test_what_is_known_of_addresses_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakemq.wire.credentials.LOOKED_AT_MAX", 5)
    net = listening(tmp_path, os.geteuid(), port=80)
    credentials = Credentials(net=net)
    content = f'{{"token_file": "{write_token(tmp_path)}"}}'.encode()
    names = [f"http://127.0.0.{number}" for number in range(1, 10)]
    rows = [f" 0: {number:02X}00007F:0050 0:0 0A 0:0 00:0 0 {os.geteuid()} 0\n" for number in range(1, 10)]
    (net / "tcp").write_text("head\n" + "".join(rows))
    for name in names:
        assert credentials.refused(name, {}, content) is None
    (net / "tcp").write_text("head\n")
    kept = []
    for name in names:
        try:
            credentials.check(name)
        except Stranger:
            kept.append(name)
    assert kept == names[-5:]


def test_a_token_that_can_be_read_on_its_way_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "lakemq.client")
    for _ in range(2):
        Credentials(TOKEN).headers("http://plain.example:8080")
        Credentials(TOKEN).headers("https://example.com")
        Credentials(TOKEN).headers("http://127.0.0.1:8080")
        Credentials(TOKEN).headers("http://localhost:8080")
    assert [record.getMessage() for record in caplog.records] == [
        "the token is sent to http://plain.example:8080 without TLS: anyone on the way can read it"
    ]


def test_no_name_server_is_shown_a_token_and_one_that_wants_one_says_so(
    peer: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEMQ_TOKEN", TOKEN)
    names = NameServers([peer.url])
    with closing(names), pytest.raises(NoAnswer, match="who asks") as refused:
        names.replicas()
    assert isinstance(refused.value.refusal, Unauthenticated)
    assert refused.value.refusal.lasting
    assert set(peer.heard) == {None}


def test_a_token_that_was_found_goes_on_no_connection_from_before_it_was_looked_who_listens(
    peer: Guarded, tmp_path: Path
) -> None:
    """Who had the port before, and gave it back to this user's gateway, may still have that connection."""
    peer.token_file = write_token(tmp_path)
    with closing(Connections(peer.url)) as connections:
        for _ in range(2):
            assert connections.ask(routes.BROKER.at(), timeout_s=60).error() is None
    assert peer.heard == [None, f"Bearer {TOKEN}", f"Bearer {TOKEN}"]
    first, second, third = peer.ports
    assert first != second
    assert second == third

    async def by_aiohttp() -> None:
        transport = Transport(peer.url)
        try:
            for _ in range(2):
                await transport.get(routes.BROKER.at())
        finally:
            await transport.close()

    peer.ports.clear()
    asyncio.run(by_aiohttp())
    first, second, third = peer.ports
    assert first != second
    assert second == third


def test_a_process_that_was_told_of_the_file_asks_with_the_token_at_once(
    peer: Guarded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEMQ_FOUND_TOKENS", json.dumps({peer.url: write_token(tmp_path)}))
    connections = Connections(peer.url)
    assert ask(connections) is None

    async def by_aiohttp() -> None:
        transport = Transport(peer.url)
        try:
            await transport.get(routes.BROKER.at())
        finally:
            await transport.close()

    asyncio.run(by_aiohttp())
    assert peer.heard == [f"Bearer {TOKEN}"] * 2
    assert ask(Connections(peer.url, NOBODY)) is not None
    assert peer.heard[-1] is None
    peer.valid, peer.token_file = OTHER, write_token(tmp_path / "another", OTHER)
    assert ask(connections) is None, "one that is over is looked for again"
    assert connections.credentials.files == {peer.url: peer.token_file}
    with guarded() as other:
        assert ask(Connections(other.url)) is not None
        assert other.heard == [None], "at another address it isn't sent"


def test_a_file_that_is_not_there_any_more_is_as_none(
    peer: Guarded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEMQ_FOUND_TOKENS", json.dumps({peer.url: str(tmp_path / "admin.token")}))
    peer.token_file = write_token(tmp_path / "elsewhere")
    assert ask(Connections(peer.url)) is None
    assert peer.heard == [None, f"Bearer {TOKEN}"]


@pytest.mark.parametrize("text", ["{", "[]", '{"http://127.0.0.1:1": 5}'])
def test_what_names_no_files_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEMQ_FOUND_TOKENS", text)
    with pytest.raises(SettingsError, match="LAKEMQ_FOUND_TOKENS"):
        Credentials()


def test_what_somebody_else_listens_at_is_not_sent_a_token_that_was_known_beforehand(
    peer: Guarded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEMQ_FOUND_TOKENS", json.dumps({peer.url: write_token(tmp_path)}))
    credentials = Credentials(net=tmp_path)  # where nothing says who listens
    assert ask(Connections(peer.url, credentials)) is not None
    assert peer.heard == [None]


def test_a_file_that_another_thread_forgets_meanwhile_is_as_none(
    peer: Guarded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEMQ_FOUND_TOKENS", json.dumps({peer.url: write_token(tmp_path)}))
    net = tmp_path / "net"
    net.mkdir()
    os.mkfifo(net / "tcp")
    credentials = Credentials(net=net)
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(credentials.headers, peer.url)
        with (net / "tcp").open("w"):  # opens once the thread reads who listens, which it has to wait for
            credentials.files.clear()
        assert found.result(60) == {}
