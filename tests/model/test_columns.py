"""The columns of a message: what is stored names them by bit, for good."""

from __future__ import annotations

from lakemq.model.columns import COMPUTED, CONTROL, MESSAGE, REQUEST, STORED_BIT, STORED_NAMES, stored_schema


def test_a_column_keeps_its_bit_for_good() -> None:
    assert STORED_NAMES[:16] == (
        "body", "tag", "keys", "properties", "ordering_key", "born_time_ms", "deliver_at_ms", "reconsume_times",
        "real_topic", "real_queue_id", "origin_message_id", "transaction_id",
        "cause", "group", "check_times", "retry_topic",
    )  # fmt: skip


def test_a_mask_names_the_columns_of_a_frame() -> None:
    mask = 1 << STORED_BIT["body"] | 1 << STORED_BIT["keys"]
    assert stored_schema(mask).names == ["body", "keys"]
    assert stored_schema(0).names == []


def test_a_message_is_its_place_and_what_was_stored() -> None:
    stored = [name for name in STORED_NAMES if name not in CONTROL]
    assert MESSAGE.names == [field.name for field in COMPUTED] + stored


def test_a_request_has_the_types_of_what_is_stored() -> None:
    for field in REQUEST:
        assert MESSAGE.field(field.name).type == field.type
