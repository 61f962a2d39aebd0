"""The console behind nginx, as deploy/nginx/console.conf has it."""

from __future__ import annotations

import ssl
from pathlib import Path

import httpx

from tests.certificates import NAMES, Authority
from tests.console.test_live import events
from tests.console.visitor import ConsoleProcess, Guarded, Visitor, went_to
from tests.ports import Ports
from tests.web.nginx import CONSOLE, find_nginx, nginx


def test_one_signs_in_behind_a_proxy_with_cookies_that_go_by_tls_alone(
    guarded: Guarded, tmp_path: Path, ports: Ports
) -> None:
    find_nginx()
    authority = Authority(tmp_path / "tls")
    pair, port = authority.pair("proxy", f"{NAMES},DNS:{CONSOLE.name}"), ports.take()
    options = {
        "auth__required": "true",
        "console__hosts": CONSOLE.name,
        "console__trusted_proxies": "127.0.0.1",
        "console__sign_in_required": "true",
    }
    with (
        ConsoleProcess(guarded.gateway.url, **options) as console,
        nginx(tmp_path / "nginx", console.url, port, pair, CONSOLE),
    ):
        visitor = Visitor(f"https://127.0.0.1:{port}")
        said = {"Host": CONSOLE.name, "Origin": f"https://{CONSOLE.name}"}
        context = ssl.create_default_context(cafile=authority.file)
        visitor.http = httpx.Client(base_url=visitor.url, verify=context, headers=said, timeout=60, trust_env=False)
        cookie = visitor.http.get("/sign-in").headers["set-cookie"].lower()
        assert {"secure", "httponly", "samesite=strict"} <= {each.strip() for each in cookie.split(";")}
        assert went_to(visitor.sign_in(guarded.admin)) == "/"
        assert "Sign out" in visitor.get("/people")
        with visitor.http.stream("GET", "/live/jobs") as response:
            assert next(events(response))[0] == "page"
        foreign = visitor.http.post("/people/new", headers={"Origin": "https://evil.example"})
        assert foreign.status_code == 403
        wrong = visitor.http.get("/", headers={"Host": "evil.example"})
        assert wrong.status_code == 421
        visitor.close()
