from __future__ import annotations

import pytest

from lakemq.model.life_event import what_of


@pytest.mark.parametrize(
    ("topic", "what", "group"),
    [
        ("orders", "stored", None),
        ("SCHEDULE_TOPIC_XXXX", "scheduled", None),
        ("RMQ_SYS_NACK_TOPIC", "nacked", None),
        ("%RETRY%billing", "retried", "billing"),
        ("%DLQ%%RETRY%", "dead", "%RETRY%"),
    ],
)
def test_a_row_is_known_by_its_topic(topic: str, what: str, group: str | None) -> None:
    assert what_of(topic) == (what, group)
