"""What the audit says of a statement."""

from __future__ import annotations

import pytest

from lakemq.contract.sql_routes import WHAT_CHARACTERS_MAX
from lakemq.jobs.served.in_short import in_short
from lakemq.jobs.served.readable import SERVED


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("SELECT 1", "SELECT"),
        ("select * from messages", "SELECT messages"),
        (" -- a word\n/* more */ ( SELECT key FROM live . messages, Audit a)", "SELECT audit, live.messages"),
        ("SELECT * FROM live.messages, Audit a JOIN `topics` t", "SELECT audit, live.messages, topics"),
        ("WITH m AS (SELECT * FROM `live`.`topics`) TABLE m", "WITH live.topics"),
        ("DROP TABLE messages", "DROP messages"),
        ("DELETE FROM/**/messages WHERE key = 'user-17'", "DELETE messages"),
        ("SELECT * FROM parquet.`/etc/shadow`", "SELECT"),
        ("hunter2 FROM passwords", "a statement"),
        ("", "a statement"),
        ("/* never closed", "a statement"),
        ("{" * 10_000, "a statement"),
    ],
)
def test_its_kind_and_the_tables_that_there_are_and_nothing_else(statement: str, said: str) -> None:
    assert in_short(statement) == said


def test_all_tables_together_have_room() -> None:
    every = in_short("DESCRIBE " + "".join(f", {'.'.join(parts)}" for parts in SERVED))
    assert every.count(",") == len(SERVED) - 1
    assert len(every) <= WHAT_CHARACTERS_MAX
