"""A search as a statement of SQL: whatever a form says stays a literal."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot import exp

from lakemq.console.sought import NOT_TEXT, Sought, literal, rows_of
from lakemq.model.errors import InvalidRequest

NASTY = ("it's", "\\", "\\'", "' OR 1 = 1 --", "a\nb", "%_\\%", "*/ ; DROP TABLE messages /*", "é😀", '"', "`")


@pytest.mark.parametrize("text", NASTY)
def test_text_is_one_literal_of_spark(text: str) -> None:
    (parsed,) = sqlglot.parse(f"SELECT {literal(text)} AS x", read="spark")
    assert parsed is not None
    (found,) = parsed.find_all(exp.Literal)
    assert found.this == text


@pytest.mark.parametrize("text", NASTY)
def test_a_statement_has_the_conditions_that_were_given_and_no_others(text: str) -> None:
    sought = Sought(text, key=text, tag=text, prop=f"n={text}", text=text, where="a = 1 -- x", begin_ms=5, end_ms=7)
    (parsed,) = sqlglot.parse(sought.statement(text, 40, 51), read="spark")
    assert isinstance(parsed, exp.Select)
    condition = parsed.args["where"].this
    assert len(list(condition.flatten())) == 10
    assert parsed.args["limit"].expression.this == "51"


def test_the_gateway_is_asked_for_what_was_given() -> None:
    assert Sought("t", tag="a", prop="n").params(9, 50) == {"tag": "a", "property": "n", "before": 9, "max": 50}
    assert Sought("t", key="k").is_by_key_alone
    assert not Sought("t", key="k", text="x").is_by_key_alone


def test_rows_of_an_answer_are_messages_and_what_is_none_is_said() -> None:
    names = ("message_id", "position", "queue_id", "queue_offset", "store_time_ms", "tag", "keys", "body")
    columns = [{"name": name, "type": "x"} for name in names]
    row = ["a-1.1", 1, 0, 2, 5, None, '["k"]', None]
    (message,) = rows_of({"columns": columns, "rows": [row]})
    assert (message["keys"], message["body"], message["position"]) == (["k"], NOT_TEXT, 1)
    for answer in ({}, {"columns": [], "rows": [[1]]}, {"columns": columns, "rows": [[None] * 8]}):
        with pytest.raises(InvalidRequest):
            rows_of(answer)
