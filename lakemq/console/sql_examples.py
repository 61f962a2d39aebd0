"""Statements to begin with. All work on a lake that nobody has written to."""

from __future__ import annotations

from typing import NamedTuple


class Example(NamedTuple):
    """`table`: what it asks, which not everybody may."""

    name: str
    table: str
    statement: str


EXAMPLES = (
    Example(
        "Messages by topic",
        "live.messages",
        """SELECT topic, count(*) AS messages, max(store_time) AS newest
FROM live.messages
WHERE NOT is_system(topic)
GROUP BY topic
ORDER BY messages DESC""",
    ),
    Example(
        "Messages a minute, in the last day",
        "live.messages",
        """SELECT date_trunc('minute', store_time) AS minute, count(*) AS messages
FROM live.messages
WHERE NOT is_system(topic) AND store_time > now() - INTERVAL 1 DAY
GROUP BY 1
ORDER BY 1""",
    ),
    Example(
        "The newest messages with their bodies",
        "live.messages",
        """SELECT store_time, topic, tag, body_text(body) AS body
FROM live.messages
WHERE NOT is_system(topic)
ORDER BY store_time DESC
LIMIT 100""",
    ),
    Example(
        "Dead letters by what failed",
        "live.dead_letters",
        """SELECT group, failure_class, count(*) AS letters, max(failed_at) AS newest
FROM live.dead_letters
WHERE state = 'open'
GROUP BY group, failure_class
ORDER BY letters DESC""",
    ),
    Example(
        "How far each group has consumed",
        "live.consumer_offsets",
        """SELECT group, topic, queue_id, max_by(offset, position) AS offset, max(committed_at) AS committed_at
FROM live.consumer_offsets
GROUP BY group, topic, queue_id
ORDER BY group, topic, queue_id""",
    ),
)
