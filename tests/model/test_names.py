"""Names of topics, groups and gateways."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemq.model.errors import InvalidRequest, InvalidTopic, LakemqError, ReadOnlyTopic
from lakemq.model.names import (
    ADDRESS_MAX,
    check_address,
    check_group,
    check_readable,
    check_writable,
    dead_letter_topic,
    is_system,
    leader_address,
    may_follow,
    retry_topic,
    to_url,
    why_not_asked,
)

MALFORMED = ["", "a b", "a/b", "a.b", "ä", "a\n", "x" * 128]
SYSTEM = ["%RETRY%group", "%DLQ%group", "RMQ_SYS_TOPICS", "SCHEDULE_TOPIC_XXXX"]


@pytest.mark.parametrize("topic", ["orders", "A-1_b", "x" * 127])
def test_a_clients_topic_is_read_and_written(topic: str) -> None:
    assert not is_system(topic)
    assert check_readable(topic) == topic
    assert check_writable(topic) == topic


@pytest.mark.parametrize("topic", SYSTEM)
def test_a_topic_of_the_system_is_read_and_never_written(topic: str) -> None:
    assert is_system(topic)
    assert check_readable(topic) == topic
    with pytest.raises(ReadOnlyTopic) as refused:
        check_writable(topic)
    assert refused.value.detail == f"topic {topic!r} is the system's; clients can't write it"


@pytest.mark.parametrize("check", [check_readable, check_writable])
@pytest.mark.parametrize("topic", MALFORMED)
def test_a_malformed_name_is_neither_read_nor_written(topic: str, check: Callable[[str], str]) -> None:
    with pytest.raises(InvalidTopic) as refused:
        check(topic)
    assert refused.value.detail == f"topic {topic!r} does not match [A-Za-z0-9_-]{{1,127}}"


@pytest.mark.parametrize(
    ("check", "name", "error"),
    [
        (check_readable, " ", InvalidTopic),
        (check_writable, " ", InvalidTopic),
        (check_writable, "%", ReadOnlyTopic),
        (check_group, " ", InvalidRequest),
        (check_address, " ", InvalidRequest),
    ],
)
def test_of_a_long_name_the_beginning_is_said(check: Callable[[str], str], name: str, error: type[LakemqError]) -> None:
    with pytest.raises(error) as refused:
        check(name * 201)
    assert repr(name * 200) in refused.value.detail
    assert name * 201 not in refused.value.detail


@pytest.mark.parametrize("topic", ["%", "%RETRY%", "%DLQ%a b", "%OTHER%group", "%RETRY%" + "x" * 128])
def test_a_percent_sign_alone_opens_no_door(topic: str) -> None:
    with pytest.raises(InvalidTopic):
        check_readable(topic)
    with pytest.raises(ReadOnlyTopic):
        check_writable(topic)


@pytest.mark.parametrize("group", ["", "a b", "%RETRY%g", "é", "g" * 128])
def test_a_group_that_cannot_be_is_refused(group: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_group(group)
    assert refused.value.detail == f"group {group!r} does not match [A-Za-z0-9_-]{{1,127}}"


def test_a_group_has_a_topic_for_retries_and_one_for_dead_letters() -> None:
    assert check_group("orders-1") == "orders-1"
    assert retry_topic("orders-1") == "%RETRY%orders-1"
    assert dead_letter_topic("orders-1") == "%DLQ%orders-1"


@pytest.mark.parametrize(
    "address", ["http://a:1", "https://b", "http://ü.de", "http://[::1]:8080", "http://proxy/lakemq"]
)
def test_an_address_is_where_a_gateway_can_be_asked(address: str) -> None:
    assert check_address(address) == address


@pytest.mark.parametrize(
    ("address", "lower"),
    [
        ("HTTPS://Broker-A.Example:8080/Prefix", "https://broker-a.example:8080/Prefix"),
        ("Http://Somebody:Secret@A:1", "http://Somebody:Secret@a:1"),
        ("http://[FE80::1]:1", "http://[fe80::1]:1"),
        ("http://[fe80::1%Eth0]:1", "http://[fe80::1%Eth0]:1"),
        ("HTTP://\u0130.example", "http://\u0130.example"),
    ],
)
def test_of_an_address_scheme_and_host_are_in_lower_case(address: str, lower: str) -> None:
    assert check_address(address) == check_address(lower) == lower


@pytest.mark.parametrize(
    "address",
    [
        "a:1",
        "ftp://a",
        "http://",
        "http://[::1",
        "http://a:99999",
        "http://a:0",
        "http://a:x",
        "http://a?b",
        "http://a#b",
        "http://a b",
        "http://a\n",
        "http://a\x00",
        "http://a\x7f",
        "http://a/ b",
        "http://a..b",
        f"http://{'x' * 64}.de",
    ],
)
def test_what_nobody_can_be_asked_at_is_no_address(address: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_address(address)
    assert refused.value.detail == f"{address!r} is no address like http://127.0.0.1:8080"


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("a:1", "http://a:1"),
        ("a", "http://a"),
        ("[::1]:8080/", "http://[::1]:8080"),
        ("https://b//", "https://b"),
        ("http://proxy/lakemq/", "http://proxy/lakemq"),
    ],
)
def test_an_address_without_a_scheme_is_a_host_over_http(address: str, url: str) -> None:
    assert to_url(address) == url


@pytest.mark.parametrize("address", ["", "ftp://a", "nowhere at all", "a:x", "://a", "a?b", "http://a:99999"])
def test_what_is_no_address_is_no_url_either(address: str) -> None:
    with pytest.raises(InvalidRequest, match="is no address like"):
        to_url(address)


@given(st.text(st.sampled_from("ab:/.[]1 ?#"), max_size=12))
def test_a_url_is_an_address_and_its_own_url(address: str) -> None:
    with suppress(InvalidRequest):
        url = to_url(address)
        assert check_address(url) == url == to_url(url)


@pytest.mark.parametrize(
    ("said", "address"),
    [
        ("http://a:1/", "http://a:1"),
        ("https://b/prefix", "https://b/prefix"),
        ("http://" + "a" * (ADDRESS_MAX - 12) + ".b:1", ""),
        ("http://a:1/" + "b" * (ADDRESS_MAX - 11), "http://a:1/" + "b" * (ADDRESS_MAX - 11)),
        ("http://a:1/" + "b" * (ADDRESS_MAX - 10), ""),
        ("a:1", ""),
        ("ftp://a:1", ""),
        ("http://somebody:secret@a:1", ""),
        ("http://somebody@a:1", ""),
        ("http://a:99999", ""),
        ("", ""),
        (None, ""),
        (7, ""),
        (["http://a:1"], ""),
    ],
)
def test_a_leader_is_believed_to_be_at_a_gateways_address_and_nowhere_else(said: object, address: str) -> None:
    assert leader_address(said) == address


@pytest.mark.parametrize(
    ("address", "leader", "follows"),
    [
        ("http://a:1", "http://b:1", True),
        ("http://a:1", "https://b:1", True),
        ("https://a:1", "https://b:1", True),
        ("https://a:1", "http://b:1", False),
        ("HTTPS://a:1", "http://b:1", False),
        ("https://a:1", "HTTPS://b:1", True),
        ("http://a:1", "http://a:1", False),
        ("http://a:1", "", False),
    ],
)
def test_who_is_sent_elsewhere_goes_there_but_never_from_https_to_http(
    address: str, leader: str, follows: bool
) -> None:
    assert may_follow(address, leader) is follows


def test_one_name_server_of_https_is_enough_for_brokers_to_be_asked_by_https() -> None:
    plain, tls = "http://names:1", "https://names:2"
    assert why_not_asked([plain, tls], "https://a:1") == why_not_asked([plain], "http://a:1") == ""
    assert why_not_asked([], "http://a:1") == ""
    assert why_not_asked([plain, tls], "http://a:1") == (
        "a broker is not asked at http://a:1: that is without TLS, and name servers are asked by https"
    )
