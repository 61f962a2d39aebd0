"""A follower of a leader that speaks TLS, and asks for certificates."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from lakemq.testing import GatewayProcess, start_gateway
from lakemq.testing.gateway_process import environment_of
from lakemq.testing.server_process import spawn
from tests.as_administrator import AsAdministrator
from tests.certificates import Authority
from tests.gateway.fleet.following import SMALL, frames_of, start_follower, wait_for
from tests.gateway.http_client import produce
from tests.web.test_tls import trusting


class Leading(NamedTuple):
    """`files`: what its followers are to have."""

    process: GatewayProcess
    authority: Authority
    files: dict[str, Any]

    def connect(self, gateway: GatewayProcess) -> httpx.Client:
        context = trusting(self.authority, self.authority.pair("test"))
        return httpx.Client(base_url=gateway.url, timeout=60, trust_env=False, verify=context, auth=AsAdministrator())


@pytest.fixture(scope="module")
def leading(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Leading]:
    folder = tmp_path_factory.mktemp("leading")
    authority = Authority(folder / "authority")
    server, replica = authority.pair("server"), authority.pair("replica")
    serving = {"tls__cert_file": server.cert, "tls__key_file": server.key, "tls__client_ca_file": authority.file}
    asking = {
        "tls__ca_file": authority.file,
        "tls__client_cert_file": replica.cert,
        "tls__client_key_file": replica.key,
    }
    with start_gateway(folder / "data", **SMALL, **serving) as process:
        yield Leading(process, authority, serving | asking)


def test_a_follower_with_a_certificate_has_the_same_log(leading: Leading, tmp_path: Path) -> None:
    with (
        leading.connect(leading.process) as leads,
        start_follower(tmp_path / "follower", leading.process.url, **leading.files) as process,
        leading.connect(process) as follows,
    ):
        produce(leads, "followed", *[f"{number}" for number in range(100)])
        wait_for(follows, leads)
        assert frames_of(follows) == frames_of(leads)
        produce(leads, "followed", "x" * 2_000_000)
        wait_for(follows, leads)
        assert frames_of(follows) == frames_of(leads)


@pytest.mark.parametrize(
    ("lacking", "said"),
    [
        (("client_cert_file", "client_key_file"), "tls.client_cert_file and tls.client_key_file name it"),
        (("ca_file",), "its certificate is not trusted"),
    ],
)
def test_one_without_follows_nobody_and_says_why(
    leading: Leading, tmp_path: Path, lacking: tuple[str, ...], said: str
) -> None:
    files = {name: file for name, file in leading.files.items() if name.removeprefix("tls__") not in lacking}
    own = {"storage__data_dir": tmp_path / "follower", "gateway__port": 0}
    follower = environment_of(broker__replica=1, fleet__primary=leading.process.url, **own, **files)
    with spawn([sys.executable, "-m", "lakemq.gateway"], follower) as process:
        assert process.stderr is not None
        assert any(said in line for line in process.stderr), "it says so, or ends"
        assert process.poll() is None, "it tries again"
        process.kill()
