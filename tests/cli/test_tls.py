"""Commands by TLS: the settings' file says whom they trust, and `lakemq up` says where it doesn't trust itself."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakemq.client.http import HttpClient
from lakemq.settings import load
from lakemq.testing import GatewayProcess, start_gateway
from tests.certificates import Authority
from tests.cli.shell import Run
from tests.docs.documents import blocks
from tests.ports import Ports


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def gateway(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    pair = authority.pair("server")
    with start_gateway(tmp_path_factory.mktemp("data"), tls__cert_file=pair.cert, tls__key_file=pair.key) as gateway:
        yield gateway


def test_the_settings_file_says_whom_commands_trust_and_for_its_command_only(
    run: Run, gateway: GatewayProcess, authority: Authority, tmp_path: Path
) -> None:
    config = tmp_path / "lakemq.toml"
    config.write_text(f'[tls]\nca_file = "{authority.file}"\n')
    assert run("--config", str(config), "produce", "orders", "hello", "--broker", gateway.url).code == 0
    done = run("--config", str(config), "pull", "orders", "--broker", gateway.url)
    assert (done.code, "hello" in done.stdout) == (0, True)
    assert "LAKEMQ_TLS__CA_FILE" not in os.environ
    done = run("topic", "list", "--broker", gateway.url)
    assert done.code == 1
    assert "tls.ca_file (LAKEMQ_TLS__CA_FILE) names authorities to trust" in done.stderr


def test_where_the_gateway_of_the_settings_speaks_tls_commands_do(
    run: Run, gateway: GatewayProcess, authority: Authority, tmp_path: Path
) -> None:
    port, config = gateway.url.rpartition(":")[2], tmp_path / "lakemq.toml"
    config.write_text(
        f'[gateway]\nport = {port}\n[tls]\ncert_file = "{authority.file}"\nkey_file = "unread"\n'
        f'ca_file = "{authority.file}"\n'
    )
    assert run("--config", str(config), "topic", "list").code == 0


def test_up_says_that_its_own_certificate_is_not_trusted_and_ends(
    run: Run, authority: Authority, tmp_path: Path, ports: Ports, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = authority.pair("up")
    for name, file in (("CERT_FILE", pair.cert), ("KEY_FILE", pair.key)):
        monkeypatch.setenv(f"LAKEMQ_TLS__{name}", str(file))
    options = ["--data-dir", str(tmp_path / "data"), "--lake", str(tmp_path / "lake"), "--port", str(ports.take())]
    done = run("up", *options)
    assert done.code == 1
    assert "its certificate is not trusted" in done.stderr
    assert "tls.ca_file (LAKEMQ_TLS__CA_FILE)" in done.stderr


@pytest.mark.parametrize("command", ["gateway", "nameserver", "up"])
def test_a_file_that_is_missing_is_said_before_anything_starts(
    run: Run,
    tmp_path: Path,
    ports: Ports,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
) -> None:
    for name in ("CERT_FILE", "KEY_FILE"):
        monkeypatch.setenv(f"LAKEMQ_TLS__{name}", str(tmp_path / "missing.pem"))
    monkeypatch.chdir(tmp_path)
    done = run(command, "--port", str(ports.take()))
    assert done.code == 1
    assert "tls.key_file: " in done.stderr
    assert "missing.pem can't be used: No such file or directory" in done.stderr
    assert not (tmp_path / "data").exists()


def test_what_the_document_shows_makes_certificates_that_serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = [block for block in blocks("docs/security.md") if "openssl" in block.text or "[tls]" in block.text]
    shell, settings = shown
    for command in shell.commands():
        assert command.startswith("openssl ")
        subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, check=True)
    (tmp_path / "lakemq.toml").write_text(settings.text)
    found = load(tmp_path / "lakemq.toml", {})
    files = {name: tmp_path / getattr(found.tls, name) for name in ("cert_file", "key_file")}
    with start_gateway(tmp_path / "data", **{f"tls__{name}": file for name, file in files.items()}) as gateway:
        monkeypatch.setenv("LAKEMQ_TLS__CA_FILE", str(tmp_path / found.tls.ca_file))
        with HttpClient(gateway.url) as client:
            assert client.is_ready()
