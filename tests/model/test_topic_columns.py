"""The columns that a topic's tables have beside those of its bodies."""

from __future__ import annotations

from lakemq.model.topic_columns import COLUMNS, IN_TABLE_ONLY, IN_VIEW, SOURCES, TYPES


def test_what_readers_go_by_keeps_its_name_and_place() -> None:
    """Readers name these columns, and tables that are there have them."""
    assert " ".join(IN_VIEW) == (
        "_message_id _broker _queue_id _offset _time _born_time _tag _keys _ordering_key _properties _body _error"
    )
    assert sorted(IN_TABLE_ONLY) == ["_position", "_schema_version"]
    assert [name for name in TYPES if name not in SOURCES] == ["_error", "_schema_version"]


def test_names_are_told_apart_without_case() -> None:
    assert len({each.name.lower() for each in COLUMNS}) == len(COLUMNS)
    assert all(each.name == each.name.lower() for each in COLUMNS)
