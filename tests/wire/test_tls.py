"""What clients trust: the files, and what is said of whom they don't."""

from __future__ import annotations

import os
import pickle
import shutil
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from lakemq.contract import routes
from lakemq.model.errors import SettingsError
from lakemq.model.trust import Trust
from lakemq.testing import GatewayProcess, start_gateway
from lakemq.wire import tls
from lakemq.wire.connections import Connections, NoAnswer
from lakemq.wire.tls import NotTrusted, client_context
from tests.certificates import Authority, Pair
from tests.open_files import no_descriptors


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def gateway(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """It asks for certificates of the same authority."""
    pair = authority.pair("server", "DNS:localhost")
    files = {"tls__cert_file": pair.cert, "tls__key_file": pair.key, "tls__client_ca_file": authority.file}
    with start_gateway(tmp_path_factory.mktemp("data"), **files) as gateway:
        yield gateway


def trust(authority: Authority, pair: Pair | None = None) -> Trust:
    return Trust(str(authority.file), *map(str, pair or ("", "")))


def refusal(url: str, trusted: Trust) -> NoAnswer:
    connections = Connections(url, trust=trusted)
    with pytest.raises(NoAnswer) as refused:
        connections.ask(routes.HEALTH.at())
    return refused.value


def by_name(gateway: GatewayProcess) -> str:
    return gateway.url.replace("127.0.0.1", "localhost")


def test_who_has_a_certificate_asks_and_is_answered(gateway: GatewayProcess, authority: Authority) -> None:
    connections = Connections(by_name(gateway), trust=trust(authority, authority.pair("client")))
    connections = pickle.loads(pickle.dumps(connections))
    for _ in range(3):
        assert connections.ask(routes.HEALTH.at()).status == 200
    assert not connections.has_ended()
    connections.close()


def test_who_has_none_is_told_what_is_lacking(gateway: GatewayProcess, authority: Authority) -> None:
    refused = refusal(by_name(gateway), trust(authority))
    assert "tls.client_cert_file" in str(refused)
    assert refused.refusal is None


def test_an_unknown_authority_is_said_with_what_helps(gateway: GatewayProcess, tmp_path: Path) -> None:
    for trusted in (Trust(), trust(Authority(tmp_path))):
        refused = refusal(by_name(gateway), trusted)
        assert "its certificate is not trusted" in str(refused)
        assert "tls.ca_file (LAKEMQ_TLS__CA_FILE)" in str(refused)
        assert isinstance(refused.refusal, NotTrusted)
        assert not refused.sent


def test_another_name_is_refused(gateway: GatewayProcess, authority: Authority) -> None:
    refused = refusal(gateway.url, trust(authority))
    assert "certificate is not valid for '127.0.0.1'" in str(refused)
    assert "tls.ca_file" not in str(refused), "that wouldn't help"
    assert isinstance(refused.refusal, NotTrusted)


def test_a_certificate_that_is_over_is_refused(authority: Authority, tmp_path: Path) -> None:
    pair = authority.pair("over", days=-1)
    with start_gateway(tmp_path / "data", tls__cert_file=pair.cert, tls__key_file=pair.key) as gateway:
        refused = refusal(gateway.url, trust(authority))
    assert "expired" in str(refused)
    assert isinstance(refused.refusal, NotTrusted)


def test_tls_spoken_to_who_speaks_none_is_said_so(tmp_path: Path) -> None:
    with start_gateway(tmp_path / "data") as gateway:
        refused = refusal(gateway.url.replace("http:", "https:"), Trust())
    assert "no TLS is spoken there" in str(refused)


def test_files_that_can_not_be_used_are_named_by_their_setting(authority: Authority, tmp_path: Path) -> None:
    text, missing = tmp_path / "text.pem", tmp_path / "missing.pem"
    text.write_text("no PEM")
    pair, other = authority.pair("one"), authority.pair("other")
    for trusted, said in (
        (Trust(str(missing)), r"tls\.ca_file: .*missing\.pem can't be used: No such file"),
        (Trust(str(text)), r"tls\.ca_file: .*text\.pem can't be used"),
        (Trust("", str(pair.cert), str(other.key)), r"tls\.client_cert_file, tls\.client_key_file: .*MISMATCH"),
    ):
        with pytest.raises(SettingsError, match=said):
            client_context(trusted)


def test_files_are_read_again_when_they_change_and_bad_ones_are_not_taken(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tls, "LOOK_S", 0.0)
    file = tmp_path / "ca.pem"
    shutil.copy(authority.file, file)
    trusted = Trust(str(file))
    first = client_context(trusted)
    assert client_context(trusted) is first
    file.write_text("no PEM")
    assert client_context(trusted) is first
    assert "tls.ca_file" in caplog.text
    shutil.copy(Authority(tmp_path, "others").file, file)
    second = client_context(trusted)
    assert second is not first
    assert common_names(second) == {"others authority"}


def test_files_that_could_not_be_used_are_read_again_though_nothing_is_seen_to_have_changed(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Regression: who could read none just then, for want of a descriptor, used the old ones for good."""
    monkeypatch.setattr(tls, "LOOK_S", 0.0)
    file, new = tmp_path / "ca.pem", tmp_path / "new.pem"
    shutil.copy(authority.file, file)
    trusted = Trust(str(file))
    first = client_context(trusted)
    shutil.copy(Authority(tmp_path, "others").file, new)
    new.rename(file)
    with no_descriptors():
        assert client_context(trusted) is first
    assert "Too many open files" in caplog.text
    assert client_context(trusted) is first, "it isn't read with each connection"
    monkeypatch.setattr(time, "monotonic", lambda now=time.monotonic: now() + tls.AGAIN_S)
    assert common_names(client_context(trusted)) == {"others authority"}


def test_who_may_read_a_file_is_seen_to_have_changed(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: after `chmod` the old one was used on."""
    monkeypatch.setattr(tls, "LOOK_S", 0.0)
    file = tmp_path / "ca.pem"
    shutil.copy(authority.file, file)
    trusted = Trust(str(file))
    first = client_context(trusted)
    file.chmod(0o640)
    assert client_context(trusted) is not first


def common_names(context: ssl.SSLContext) -> set[str]:
    """Of what is trusted beside the system's."""
    system = len(ssl.create_default_context().get_ca_certs())
    found = context.get_ca_certs()
    assert len(found) == system + 1
    return {str(value) for ((_, value),) in cast("Any", found[-1])["subject"]}


def test_the_environment_says_it_where_nothing_else_does(
    gateway: GatewayProcess, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in Trust().__class__._fields:
        monkeypatch.delenv(f"LAKEMQ_TLS__{name.upper()}", raising=False)
    connections = Connections(by_name(gateway))
    with pytest.raises(NoAnswer):
        connections.ask(routes.HEALTH.at())
    for name, file in trust(authority, authority.pair("environment")).as_environment().items():
        monkeypatch.setitem(os.environ, name, file)
    assert connections.ask(routes.HEALTH.at()).status == 200
    connections.close()
