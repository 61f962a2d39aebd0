"""Every route of a name server that has tokens, asked by all who may not, and by who may."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from lakemq.contract.route import Route
from lakemq.model.token import make_token
from lakemq.testing import NameServerProcess, start_nameserver
from tests.docs.rights import OF_NAME_SERVER
from tests.gateway.access.asking import NAMES, WRONG, ask, is_let_in
from tests.gateway.http_client import TLS, WAIT_S, is_problem
from tests.nameserver.asking import wait_until

ASKED = [route for route in OF_NAME_SERVER if not route.rights.public]
OF_ALL, OF_BROKER, OF_OTHER, OVER = (make_token(bytes([number]) * 40).text for number in range(1, 5))
"""Tokens for all brokers, for the one that is asked for, for another, and one that isn't there any more."""


class Scene(NamedTuple):
    """A name server whose tokens those are."""

    process: NameServerProcess
    file: Path

    def asking(self, said: str = "", local: str = "127.0.0.1") -> httpx.Client:
        transport = httpx.HTTPTransport(local_address=local, verify=TLS)
        headers = {"Authorization": said} if said else {}
        return httpx.Client(transport=transport, base_url=self.process.url, timeout=WAIT_S, headers=headers)


def write(file: Path, *lines: str) -> None:
    new = file.with_name("new")
    new.write_text("".join(f"{line}\n" for line in lines))
    new.chmod(0o600)
    new.replace(file)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A token that is taken out of the file stands for one that has expired: these don't by themselves."""
    file = tmp_path_factory.mktemp("every-route") / "tokens"
    kept = OF_ALL, f"{NAMES['broker']} = {OF_BROKER}", f"another = {OF_OTHER}"
    write(file, *kept, OVER)
    with start_nameserver(nameserver__token_file=file, nameserver__probe_ms=0) as process:
        made = Scene(process, file)
        with made.asking(f"Bearer {OVER}", "127.0.1.250") as late:
            assert is_let_in(ask(late, ASKED[0]))
            write(file, *kept)
            wait_until(lambda: not is_let_in(ask(late, ASKED[0])))
        yield made


def test_what_is_public_takes_no_token_and_all_else_does(scene: Scene) -> None:
    with scene.asking() as nobody:
        for route in OF_NAME_SERVER:
            answer = ask(nobody, route)
            if route.rights.public:
                assert answer.is_success, route.path
            else:
                assert is_problem(answer, 401, "unauthenticated"), route.path
                assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("route", ASKED, ids=lambda route: f"{route.method} {route.path}")
def test_nobody_is_let_in_with_a_token_that_is_none_or_is_over(scene: Scene, route: Route) -> None:
    """Tries are counted by address, so each route has one of its own."""
    local = f"127.0.1.{ASKED.index(route) + 1}"
    wrong_secret = OF_ALL[:-64] + "0" * 64
    for said in (*(f"Bearer {each}" for each in (*WRONG, wrong_secret, OVER)), "Basic YTpi"):
        with scene.asking(said, local) as stranger:
            assert is_problem(ask(stranger, route), 401, "unauthenticated"), said


@pytest.mark.parametrize("route", ASKED, ids=lambda route: f"{route.method} {route.path}")
def test_a_token_is_for_the_brokers_that_the_file_names(scene: Scene, route: Route) -> None:
    of_broker = "broker" in route.within
    for token, may in ((OF_ALL, True), (OF_BROKER, of_broker), (OF_OTHER, False)):
        with scene.asking(f"Bearer {token}") as holder:
            answer = ask(holder, route)
            assert is_let_in(answer) if may else is_problem(answer, 403, "forbidden"), token
