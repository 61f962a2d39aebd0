"""Steps that have left the log: what is asked of the lake, and what its rows are. The rule alone."""

from __future__ import annotations

from typing import Any

import pytest

from lakemq.client.errors import Unreachable
from lakemq.console.lake_life import events_of, statement, why_not
from lakemq.model.errors import Forbidden, InvalidRequest

SENT = {"message_id": "a-1.10", "topic": "orders", "position": 10, "store_time_ms": 1_000}
NAMES = (
    *("position", "cause", "topic", "queue_id", "queue_offset", "message_id", "group", "tag", "reconsume_times"),
    *("time_ms", "due_ms", "failure_class", "failure_text"),
)


def answer(*topics: str) -> dict[str, Any]:
    rows = [
        [str(11 + at), "10", topic, 0, str(at), f"a-1.{11 + at}", None, None, None, "2000", None, None, "no"]
        for at, topic in enumerate(topics)
    ]
    return {"columns": [{"name": name, "type": "string"} for name in NAMES], "rows": rows}


def test_a_statement_holds_names_as_text_and_only_what_came_before_the_log() -> None:
    text = statement("it's", SENT, [10, 12], ["a-1.10", "x' OR '1'='1"], 5_000)
    assert "broker = 'it\\'s'" in text
    assert "cause IN (10, 12) OR origin_message_id IN ('a-1.10', 'x\\' OR \\'1\\'=\\'1')" in text
    assert "position > 10" in text
    assert "store_time <= timestamp_millis(5000)" in text


def test_rows_are_events_and_a_copy_elsewhere_is_none() -> None:
    found = events_of(answer("RMQ_SYS_NACK_TOPIC", "%DLQ%g", "replayed", "orders"), SENT)
    assert [(each["what"], each["group"], each["position"]) for each in found] == [
        ("nacked", None, 11),
        ("dead", "g", 12),
    ]
    assert (found[1]["failure_text"], found[1]["queue_offset"], found[1]["reconsume_times"]) == ("no", 1, 0)
    waited = SENT | {"topic": "SCHEDULE_TOPIC_XXXX", "real_topic": "orders"}
    assert [each["topic"] for each in events_of(answer("replayed", "orders"), waited)] == ["orders"]


@pytest.mark.parametrize("wrong", [{}, {"columns": [], "rows": [[1]]}, {"columns": [{"name": "x"}], "rows": [["1"]]}])
def test_something_else_than_rows_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        events_of(wrong, SENT)


def test_a_page_says_why_the_lake_was_not_read() -> None:
    assert why_not(Unreachable("x", sent=False)) == "No jobs answer SQL, so the lake wasn't read."
    assert why_not(Forbidden("x")) == "You may not use SQL, so the lake wasn't read."
    assert why_not(InvalidRequest("odd")) == "The lake wasn't read: odd"
