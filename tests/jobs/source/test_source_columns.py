"""The columns of `format("lakemq")`: tables of earlier versions have them in this order."""

from __future__ import annotations

from lakemq.jobs.source.columns import COLUMNS


def test_columns_keep_their_places_and_types() -> None:
    assert [f"{name} {kind.simpleString()}" for name, kind in COLUMNS.items()][:24] == [
        "broker string", "position bigint", "topic string", "queue_id int", "queue_offset bigint",
        "message_id string", "tag string", "keys array<string>", "properties map<string,string>",
        "ordering_key string", "body binary", "store_time timestamp", "store_date date", "born_time timestamp",
        "deliver_at timestamp", "reconsume_times int", "real_topic string", "real_queue_id int",
        "origin_message_id string", "transaction_id string", "cause bigint", "group string", "check_times int",
        "retry_topic string",
    ]  # fmt: skip
