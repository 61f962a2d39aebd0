"""Message ids."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemq.model.errors import MessageNotFound
from lakemq.model.ids import (
    broker_of_id,
    format_message_id,
    is_broker_name,
    parse_message_id,
    split_nonce,
    with_nonce,
)

BROKERS = st.from_regex(r"[A-Za-z0-9_-]{1,63}", fullmatch=True)
LIFE = "0123456789ab-1"
LOGS = st.from_regex(r"[0-9a-f]{12}", fullmatch=True)
POSITIONS = st.integers(0, 2**63 - 1)


@given(BROKERS, LOGS, st.integers(1, 2**30), POSITIONS)
def test_an_id_is_read_as_it_was_written_and_needs_no_quoting(broker: str, log: str, epoch: int, position: int) -> None:
    message_id = format_message_id(broker, log, epoch, position)
    assert quote(message_id, safe="") == message_id
    assert parse_message_id(message_id) == (broker, f"{log}-{epoch}", position)


@pytest.mark.parametrize(
    "text",
    ["", "broker-a", "broker-a.", ".1", "broker-a.1",
     *(f"broker-a.{LIFE}.{end}" for end in ("", "01", "-1", "1\n", "٣")),
     f"a b.{LIFE}.1", f".{LIFE}.1", f"broker-a.{LIFE}.{2**63}", "x" * 64 + f".{LIFE}.1", "broker-a.0123456789ab.1",
     "broker-a.0123456789ab-0.1", "broker-a.0123456789AB-1.1", "broker-a.-1.1"],
)  # fmt: skip
def test_what_was_never_an_id_is_no_message(text: str) -> None:
    with pytest.raises(MessageNotFound) as refused:
        parse_message_id(text)
    assert refused.value.detail == f"{text!r} is no message id"


def test_of_a_long_text_that_is_no_id_the_beginning_is_said() -> None:
    with pytest.raises(MessageNotFound) as refused:
        parse_message_id("x" * 201)
    assert refused.value.detail == f"'{'x' * 200}' is no message id"


NONCES = st.from_regex(r"[0-9a-f]{16}", fullmatch=True)


@given(BROKERS, POSITIONS, NONCES)
def test_a_receipt_is_an_id_and_a_nonce(broker: str, position: int, nonce: str) -> None:
    message_id = format_message_id(broker, "0123456789ab", 3, position)
    receipt = with_nonce(message_id, nonce)
    assert receipt == f"{message_id}-{nonce}"
    assert split_nonce(receipt) == (message_id, nonce)
    assert split_nonce(message_id) == (message_id, ""), "an id alone, and its broker may have a dash"


@pytest.mark.parametrize("text", ["", "-", "a-0123456789abcde", "a-0123456789abcdef0", "a-0123456789ABCDEF", "a"])
def test_what_ends_with_no_nonce_has_none(text: str) -> None:
    assert split_nonce(text) == (text, "")


@given(st.text(max_size=80))
def test_no_text_breaks_the_parser(text: str) -> None:
    try:
        broker, life, position = parse_message_id(text)
    except MessageNotFound:
        return
    log, _, epoch = life.partition("-")
    assert format_message_id(broker, log, int(epoch), position) == text


@pytest.mark.parametrize(
    ("name", "fits"),
    [("broker-a", True), ("B_1", True), ("", False), ("a.b", False), ("a\n", False), ("x" * 64, False)],
)
def test_a_broker_name_fits_into_an_id(name: str, fits: bool) -> None:
    assert is_broker_name(name) is fits


@pytest.mark.parametrize("rest", ["", "-0123456789abcdef", "-0123", " and more"])
def test_what_begins_as_an_id_names_its_broker(rest: str) -> None:
    assert broker_of_id(format_message_id("orders-1", "0123456789ab", 2, 7) + rest) == "orders-1"


@pytest.mark.parametrize("text", ["", "orders-1", "orders-1.7", "a.0123456789AB-1.7", "..", "ä.0123456789ab-1.7"])
def test_what_does_not_names_none(text: str) -> None:
    assert broker_of_id(text) is None
