"""Where a client goes for SQL, by what a broker says: 192.0.2.0/24 is nobody's, and nothing is sent there."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from lakemq.client.errors import Unreachable
from lakemq.client.sql_request import check_sql_address
from lakemq.wire.own_machine import is_own

ELSEWHERE, HERE = "192.0.2.1", "127.0.0.2"


@pytest.mark.parametrize(
    ("url", "sql"),
    [
        ("http://127.0.0.1:1", "http://127.0.0.1:2"),
        ("http://127.0.0.2:1", "http://[::1]:2"),
        ("http://localhost:1", "https://localhost:2"),
        ("http://127.0.0.1:1", "http://192.0.2.2:2"),
        ("https://192.0.2.1:1", "https://192.0.2.2:2"),
    ],
)
def test_a_client_goes_where_the_broker_says(url: str, sql: str) -> None:
    assert check_sql_address(url, {"sql": sql}) == sql
    assert check_sql_address(url, {"sql": f"{sql}/"}) == sql


@pytest.mark.parametrize("sql", ["http://127.0.0.1:2", "https://localhost:2", "http://[::1]:2", "http://0.0.0.0:2"])
@pytest.mark.parametrize("url", ["http://192.0.2.1:1", "http://[2001:db8::1]:1"])
def test_a_client_takes_its_token_to_nothing_on_its_own_machine_for_a_broker_elsewhere(url: str, sql: str) -> None:
    with pytest.raises(Unreachable, match=r"set sql_http\.advertise for the jobs"):
        check_sql_address(url, {"sql": sql})


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"sql": None},
        {"sql": ""},
        {"sql": 7},
        {"sql": "nonsense"},
        {"sql": "http://[::1"},
        {"sql": "http://a:b@127.0.0.1:2"},
        {"sql": "http://127.0.0.1:1"},
        {"sql": None, "sql_withheld": {"no": "text"}},
    ],
    ids=str,
)
def test_a_broker_that_names_no_place_for_sql_knows_no_jobs(said: dict[str, Any]) -> None:
    with pytest.raises(Unreachable, match=r"no jobs that answer SQL are known to http://127\.0\.0\.1:1$") as raised:
        check_sql_address("http://127.0.0.1:1", said)
    assert not raised.value.sent


def test_a_client_repeats_why_it_is_told_of_none_within_bounds() -> None:
    with pytest.raises(Unreachable, match=r"no jobs that answer SQL are known to http://192\.0\.2\.1:1: set it$"):
        check_sql_address("http://192.0.2.1:1", {"sql": None, "sql_withheld": "set it"})
    with pytest.raises(Unreachable) as raised:
        check_sql_address("http://192.0.2.1:1", {"sql": None, "sql_withheld": "x" * 10_000})
    assert len(raised.value.detail) < 500


def test_tls_is_kept() -> None:
    with pytest.raises(Unreachable, match="no jobs that answer SQL"):
        check_sql_address("https://127.0.0.1:1", {"sql": "http://127.0.0.1:2"})


@pytest.mark.parametrize(
    ("addresses", "own"),
    [([HERE], True), ([HERE, "127.0.0.3"], True), ([ELSEWHERE], False), ([HERE, ELSEWHERE], False), ([], False)],
)
def test_a_name_is_this_machine_if_all_of_its_addresses_are(
    monkeypatch: pytest.MonkeyPatch, addresses: list[str], own: bool
) -> None:
    def resolve(host: str, port: int, type: int) -> list[tuple[Any, ...]]:
        assert (host, port) == ("mq.example", 0)
        if not addresses:
            raise socket.gaierror("no such name")
        return [(socket.AF_INET, type, 0, "", (each, port)) for each in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    assert is_own("http://mq.example:8080") is own


def test_an_address_is_this_machine_if_it_has_it() -> None:
    assert is_own("http://127.0.0.1:1")
    assert not is_own(f"http://{ELSEWHERE}:1")
