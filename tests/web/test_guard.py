from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from lakemq.model.errors import SettingsError
from lakemq.settings import Gateway, load
from lakemq.settings.listener import SqlHttp
from lakemq.testing import GatewayProcess
from lakemq.web.guard import Guard
from lakemq.web.problems import Answer, Headers
from tests.gateway.http_client import Connection, check_problem, is_problem, pull_all, put_topic

LOOPBACK = ("127.0.0.1", 8080)
HOST = (b"host", b"127.0.0.1:8080")


def ask(
    *headers: tuple[bytes, bytes],
    method: bytes = b"POST",
    url: bytes = b"/v1/topics",
    gateway: Gateway | None = None,
    address: tuple[str, int | None] | None = LOOPBACK,
    is_old: bool = False,
) -> str:
    answer = Guard("gateway", gateway or Gateway(), 8080).problem(method, url, [*headers], is_old, address)
    return code_of(answer)


def code_of(answer: Answer | None) -> str:
    if answer is None:
        return "fine"
    headers = {name.decode(): value.decode() for name, value in answer.headers}
    check_problem(answer.status, headers, bytes(answer.body))
    return f"{answer.status} " + httpx.Response(200, content=bytes(answer.body)).json()["code"]


@pytest.mark.parametrize("name", [b"127.0.0.1", b"localhost", b"[::1]", b"LocalHost", b" 127.0.0.1"])
@pytest.mark.parametrize("port", [b"", b":8080", b":9999"])
def test_the_gateways_names_are_taken_without_a_port_and_with_any_that_may_be_forwarded_to_it(
    name: bytes, port: bytes
) -> None:
    assert ask((b"host", name + port)) == "fine"


@pytest.mark.parametrize("coding", [b"gzip, chunked", b"chunked, chunked", b"identity", b"", b"gzip"])
def test_a_body_in_another_coding_than_chunks_is_refused(coding: bytes) -> None:
    """It was stored as it came, with its gzip, and the answer was 200."""
    assert ask(HOST, (b"transfer-encoding", coding)) == "400 invalid_request"
    assert ask(HOST, (b"transfer-encoding", b"chunked"), (b"transfer-encoding", coding)) == "400 invalid_request"
    assert ask(HOST, (b"transfer-encoding", b" Chunked")) == "fine"


def test_a_request_of_http_1_0_in_chunks_is_refused_and_ends_the_connection(
    gateway: GatewayProcess, http: httpx.Client, topic: str
) -> None:
    """It was stored; a proxy of HTTP/1.0 takes what it doesn't know of it for another request."""
    assert ask(HOST, (b"transfer-encoding", b"chunked"), is_old=True) == "400 invalid_request"
    assert ask((b"transfer-encoding", b"chunked"), is_old=True) == "400 invalid_request"
    assert ask(HOST, (b"content-length", b"5"), is_old=True) == "fine"
    put_topic(http, topic)
    head = f"POST /v1/topics/{topic}/messages HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n"
    for length in ("", "Content-Length: 15\r\n"):
        with Connection(gateway) as connection:
            body = "5\r\nhello\r\n0\r\n\r\n"
            connection.send(f"{head}{length}Transfer-Encoding: chunked\r\n\r\n{body}".encode() * 2)
            answer = connection.answer()
            assert answer is not None
            assert answer.status == 400
            assert connection.answer() is None
    assert pull_all(http, topic) == []


OTHER_HOSTS = [
    b"evil.example", b"evil.example:8080", b"localhost.evil.example", b"", b"[", b"\xff", b"127.0.0.2:8080",
    b"127.0.0.1:", b"127.0.0.1:80:1", b"localhost:123456", b"localhost:80.evil.example", b"127.0.0.1.evil:80",
]  # fmt: skip


@pytest.mark.parametrize("host", OTHER_HOSTS)
def test_another_host_is_refused(host: bytes) -> None:
    assert ask((b"host", host)) == "421 wrong_host"


def test_the_host_that_is_listened_on_and_those_of_the_setting_are_names_too() -> None:
    gateway = Gateway(host="broker.example", hosts=("mq.example", "proxy.example:443"))
    for host in (b"broker.example:8080", b"mq.example", b"mq.example:8080", b"proxy.example:443"):
        assert ask((b"host", host), gateway=gateway) == "fine"
    assert ask((b"host", b"proxy.example"), gateway=gateway) == "421 wrong_host"


@pytest.mark.parametrize(("section", "listener"), [("gateway", Gateway), ("sql_http", SqlHttp)])
def test_the_address_that_others_are_told_is_a_name(section: str, listener: type[Gateway | SqlHttp]) -> None:
    guard = Guard(section, listener(advertise="http://jobs.example:8090"), 8090)
    assert guard.problem(b"GET", b"/v1/sql", [(b"host", b"jobs.example:8090")], False, None) is None
    assert guard.problem(b"GET", b"/v1/sql", [(b"host", b"other.example:8090")], False, None) is not None


def test_the_address_that_a_connection_came_to_is_a_name() -> None:
    everywhere = Gateway(host="0.0.0.0")
    assert ask((b"host", b"10.0.0.7:8080"), gateway=everywhere, address=("10.0.0.7", 8080)) == "fine"
    assert ask((b"host", b"[fd00::7]:8080"), gateway=everywhere, address=("fd00::7", 8080)) == "fine"
    assert ask((b"host", b"10.0.0.8:8080"), gateway=everywhere, address=("10.0.0.7", 8080)) == "421 wrong_host"


def test_a_request_has_one_host_unless_its_http_is_old() -> None:
    assert ask() == "400 invalid_request"
    assert ask(is_old=True) == "fine"
    assert ask(HOST, HOST) == "400 invalid_request"


def test_a_whole_url_counts_more_than_the_header() -> None:
    assert ask(HOST, url=b"http://localhost:8080/v1/topics") == "fine"
    assert ask(HOST, url=b"http://[::1]:8080/v1/topics") == "fine"
    assert ask(HOST, url=b"http://evil.example/v1/topics") == "421 wrong_host"
    assert ask(HOST, url=b"*") == "fine"


def test_behind_a_forwarded_port_a_page_of_its_own_is_served_and_another_of_this_machine_is_not() -> None:
    forwarded = (b"host", b"localhost:9999")
    assert ask(forwarded, (b"origin", b"http://localhost:9999")) == "fine"
    for origin in (b"http://localhost:3000", b"http://127.0.0.1:9999", b"http://evil.example:9999"):
        assert ask(forwarded, (b"origin", origin)) == "403 wrong_origin"
    assert ask(forwarded, (b"sec-fetch-site", b"same-site")) == "403 wrong_origin"


@pytest.mark.parametrize(
    "origin",
    [
        b"http://evil.example",
        b"null",
        b"http://localhost:3000",
        b"http://127.0.0.1",
        b"file://",
        b"http://127.0.0.1:80800",
    ],
)
def test_a_foreign_origin_is_refused(origin: bytes) -> None:
    for method in (b"GET", b"POST", b"OPTIONS"):
        assert ask(HOST, (b"origin", origin), method=method) == "403 wrong_origin"


def test_the_gateways_own_pages_and_those_of_the_setting_are_served() -> None:
    assert ask(HOST, (b"origin", b"http://127.0.0.1:8080")) == "fine"
    gateway = Gateway(origins=("https://console.example",))
    assert ask(HOST, (b"origin", b"https://Console.example"), gateway=gateway) == "fine"
    assert (
        ask(HOST, (b"origin", b"https://console.example"), (b"origin", b"x"), gateway=gateway) == "400 invalid_request"
    )


def test_what_has_no_origin_is_told_by_its_site() -> None:
    cross, navigates = (b"sec-fetch-site", b"cross-site"), (b"sec-fetch-mode", b"navigate")
    assert ask(HOST, cross, method=b"GET") == "403 wrong_origin"
    assert ask(HOST, (b"sec-fetch-site", b"same-site"), method=b"GET") == "403 wrong_origin"
    assert ask(HOST, cross, navigates, method=b"GET") == "fine"
    assert ask(HOST, cross, navigates) == "403 wrong_origin"
    for site in (b"same-origin", b"none"):
        assert ask(HOST, (b"sec-fetch-site", site)) == "fine"


def send(gateway: GatewayProcess, *headers: bytes, path: bytes = b"/v1/topics/t/messages") -> Headers:
    with Connection(gateway) as connection:
        head = b"\r\n".join([b"POST %s HTTP/1.1" % path, *headers, b"Content-Length: 5", b"", b"hello"])
        connection.send(head)
        answer = connection.answer()
        assert answer is not None
        if answer.status != 200:
            check_problem(answer.status, answer.headers, answer.body)
        return answer.status, answer.body  # type: ignore[return-value]


def test_neither_the_hot_path_nor_any_other_serves_a_page_of_another_site(
    gateway: GatewayProcess, http: httpx.Client, topic: str
) -> None:
    put_topic(http, topic)
    path = f"/v1/topics/{topic}/messages".encode()
    own = b"Host: " + gateway.url.removeprefix("http://").encode()
    assert send(gateway, own, path=path)[0] == 200
    assert send(gateway, b"Host: evil.example", path=path)[0] == 421
    assert send(gateway, own, b"Origin: http://evil.example", path=path)[0] == 403
    assert send(gateway, b"User-Agent: x", path=path)[0] == 400
    assert len(pull_all(http, topic)) == 1
    for method, target in (("GET", "/v1/topics"), ("GET", "/docs"), ("PUT", f"/v1/topics/{topic}"), ("OPTIONS", "/v1")):
        assert is_problem(http.request(method, target, headers={"Host": "evil.example"}), 421, "wrong_host")
        assert is_problem(http.request(method, target, headers={"Origin": "http://evil.example"}), 403, "wrong_origin")


def test_a_refused_request_takes_nothing_from_those_that_follow_on_its_connection(
    gateway: GatewayProcess, http: httpx.Client, topic: str
) -> None:
    put_topic(http, topic)
    path = f"/v1/topics/{topic}/messages"
    requests = [
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {size}\r\n\r\n{'x' * size}"
        for host, size in [("localhost", 1), ("evil.example", 100_000), ("localhost", 2), ("evil.example", 3)]
    ]
    with Connection(gateway) as connection:
        connection.send("".join(requests).encode())
        answers = [connection.answer() for _ in requests]
    assert [answer and answer.status for answer in answers] == [200, 421, 200, 421]
    assert [message["body"] for message in pull_all(http, topic)] == ["x", "xx"]


@pytest.mark.parametrize("section", ["gateway", "nameserver"])
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "broker.example", ""])
def test_what_others_could_reach_is_refused_unless_it_is_meant(tmp_path: Path, host: str, section: str) -> None:
    file = tmp_path / "conf.toml"
    file.write_text(f'[{section}]\nhost = "{host}"\n')
    who = {"LAKEMQ_NAMESERVER__TOKEN_FILE": "tokens"} if section == "nameserver" else {}
    with pytest.raises(SettingsError, match=rf"{section}\.host is .*auth\.insecure = true"):
        load(file, who)
    assert getattr(load(file, {"LAKEMQ_AUTH__INSECURE": "true"}), section).host == host
    required, by_tls = {"LAKEMQ_AUTH__REQUIRED": "true"}, {"LAKEMQ_TLS__CERT_FILE": "c", "LAKEMQ_TLS__KEY_FILE": "k"}
    with pytest.raises(SettingsError, match=rf"{section}\.host is .* needs tls\.cert_file and tls\.key_file,"):
        load(file, who | required)
    with pytest.raises(SettingsError, match=rf"{section}\.host is .* needs auth\.required = true,"):
        load(file, who | by_tls)
    assert getattr(load(file, who | required | by_tls), section).host == host


def test_a_name_server_beyond_this_machine_knows_who_may_register(tmp_path: Path) -> None:
    file = tmp_path / "conf.toml"
    file.write_text('[nameserver]\nhost = "0.0.0.0"\n[auth]\nrequired = true\n[tls]\ncert_file = "c"\nkey_file = "k"\n')
    with pytest.raises(SettingsError, match=r"set nameserver\.token_file to a file of tokens"):
        load(file, {})


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"CERT_FILE": "c"}, r"tls\.cert_file is set and tls\.key_file is not"),
        ({"KEY_FILE": "k"}, r"tls\.key_file is set and tls\.cert_file is not"),
        ({"CLIENT_KEY_FILE": "k"}, r"tls\.client_key_file is set and tls\.client_cert_file is not"),
        ({"CLIENT_CA_FILE": "a"}, r"tls\.client_ca_file is set and tls\.cert_file is not"),
        ({"CA": "a"}, r"unknown setting 'tls\.ca'"),
    ],
)
def test_half_of_what_tls_takes_is_refused(environment: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        load(None, {f"LAKEMQ_TLS__{name}": file for name, file in environment.items()})


def test_an_address_without_tls_is_not_told_of_a_gateway_that_speaks_it() -> None:
    files = {"LAKEMQ_TLS__CERT_FILE": "c", "LAKEMQ_TLS__KEY_FILE": "k"}
    assert load(None, files | {"LAKEMQ_GATEWAY__ADVERTISE": "https://a:1"}).gateway.advertise == "https://a:1"
    with pytest.raises(SettingsError, match=r"gateway\.advertise is http://a:1, but with tls\.cert_file"):
        load(None, files | {"LAKEMQ_GATEWAY__ADVERTISE": "http://a:1"})


def test_names_and_origins_may_stand_in_the_environment() -> None:
    names = {"LAKEMQ_GATEWAY__HOSTS": "a.example, b.example:80", "LAKEMQ_GATEWAY__ORIGINS": "https://a.example"}
    gateway = load(None, names).gateway
    assert (gateway.hosts, gateway.origins) == (("a.example", "b.example:80"), ("https://a.example",))
    for name, value in (("HOSTS", "http://a.example"), ("ORIGINS", "a.example"), ("ORIGINS", "https://a/b")):
        with pytest.raises(SettingsError, match=name.lower()):
            load(None, {f"LAKEMQ_GATEWAY__{name}": value})
