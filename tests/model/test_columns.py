"""The columns of a message: what is stored names them by bit, for good."""

from __future__ import annotations

from lakemq.client import Message, MessageView
from lakemq.client.outgoing import MessageFields
from lakemq.model import message_columns
from lakemq.model.columns import COMPUTED, MESSAGE, REQUEST, SINK, STORED_BIT, STORED_NAMES, TIMES, stored_schema
from lakemq.model.message import Draft
from lakemq.model.message_columns import ANSWERED, GIVEN, Kind


def test_a_column_keeps_its_bit_for_good() -> None:
    assert STORED_NAMES[:18] == (
        "body", "tag", "keys", "properties", "ordering_key", "born_time_ms", "deliver_at_ms", "reconsume_times",
        "real_topic", "real_queue_id", "origin_message_id", "transaction_id",
        "cause", "group", "check_times", "retry_topic", "ttl_ms", "priority",
    )  # fmt: skip


def test_a_mask_names_the_columns_of_a_frame() -> None:
    mask = 1 << STORED_BIT["body"] | 1 << STORED_BIT["keys"]
    assert stored_schema(mask).names == ["body", "keys"]
    assert stored_schema(0).names == []


def test_a_message_is_its_place_and_what_was_stored() -> None:
    routing = {"cause", "group", "check_times", "retry_topic"}
    assert {column.name for column in message_columns.STORED if column.routes} == routing
    stored = [name for name in STORED_NAMES if name not in routing]
    assert MESSAGE.names == [field.name for field in COMPUTED] + stored
    assert MESSAGE.names == [column.name for column in ANSWERED]


def test_a_request_has_the_types_of_what_is_stored() -> None:
    for field in REQUEST:
        assert MESSAGE.field(field.name).type == field.type


def test_a_request_says_no_more_than_a_producer_may() -> None:
    said = {"body", "tag", "keys", "properties", "ordering_key", "queue_id", "born_time_ms", "deliver_at_ms"}
    said |= {"ttl_ms", "priority"}
    assert set(REQUEST.names) == said
    assert set(SINK.names) == {*said, "origin_message_id"}


def test_times_end_with_their_unit_where_they_are_numbers() -> None:
    assert TIMES == {"store_time": "store_time_ms", "born_time": "born_time_ms", "deliver_at": "deliver_at_ms"}
    all_of_them = (*message_columns.COMPUTED, *message_columns.STORED)
    assert {column.name for column in all_of_them if column.kind is Kind.TIME} == set(TIMES.values())


def test_a_column_is_in_all_that_spells_it_for_the_sake_of_its_type() -> None:
    """What else has a message's columns is made of the table."""
    assert {column.name for column in GIVEN} | {"delay_level", "delay_ms"} == set(Draft._fields)
    plain = {column.name for column in GIVEN if column.kind is not Kind.TIME}
    others = {"delay_level", "delay", "deliver_at", "json"}
    assert set(Message.__dataclass_fields__) == plain | others
    assert set(MessageFields.__annotations__) == (plain | others) - {"body"}
    for column in ANSWERED:
        assert isinstance(getattr(MessageView, column.name), property)
