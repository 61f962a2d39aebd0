"""The columns that every topic's table has beside those of its bodies."""

from __future__ import annotations

from typing import NamedTuple


class TopicColumn(NamedTuple):
    """One of them. `source`: the column of `messages` that it is; None: it comes from decoding the body. `type`: in
    SQL. `in_view`: the view `topics.…` has it too, not only the topic's own Delta table."""

    name: str
    source: str | None
    type: str
    in_view: bool = True


COLUMNS = (
    TopicColumn("_message_id", "message_id", "string"),
    TopicColumn("_broker", "broker", "string"),
    TopicColumn("_position", "position", "bigint", in_view=False),
    TopicColumn("_queue_id", "queue_id", "int"),
    TopicColumn("_offset", "queue_offset", "bigint"),
    TopicColumn("_time", "store_time", "timestamp"),
    TopicColumn("_born_time", "born_time", "timestamp"),
    TopicColumn("_tag", "tag", "string"),
    TopicColumn("_keys", "keys", "array<string>"),
    TopicColumn("_ordering_key", "ordering_key", "string"),
    TopicColumn("_properties", "properties", "map<string,string>"),
    TopicColumn("_body", "body", "binary"),
    TopicColumn("_error", None, "string"),
    TopicColumn("_schema_version", None, "int", in_view=False),
)
"""In the order of the tables."""
IN_VIEW = tuple(each.name for each in COLUMNS if each.in_view)
"""Names that no column of a body can have."""
IN_TABLE_ONLY = frozenset(each.name for each in COLUMNS if not each.in_view)
"""Names that no column of a body can have where the topic has a Delta table of its own."""
TYPES = {each.name: each.type for each in COLUMNS}
SOURCES = {each.name: each.source for each in COLUMNS if each.source is not None}
