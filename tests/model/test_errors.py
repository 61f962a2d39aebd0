"""The tree of errors: clients branch on its codes."""

from __future__ import annotations

import ast
from pathlib import Path

from lakemq.model.errors import EpochDiverged, InvalidSql, NotLeader, OverQuota, TopicNotFound

SOURCE = Path(__file__).parents[2] / "lakemq"


def test_an_error_has_its_detail_for_people_and_its_code_for_programs() -> None:
    error = TopicNotFound("no topic 'x'")
    assert (error.detail, str(error), error.code) == ("no topic 'x'", "no topic 'x'", "topic_not_found")


def test_a_follower_says_who_leads_where_it_knows() -> None:
    error = NotLeader("this is a follower", "http://10.0.0.5:8080")
    assert (error.detail, error.leader) == ("this is a follower", "http://10.0.0.5:8080")
    assert error.members == {"leader": "http://10.0.0.5:8080"}
    assert (NotLeader("this is a follower").leader, NotLeader("this is a follower").members) == ("", {})


def test_what_is_wrong_in_a_statement_has_its_place_where_that_is_known() -> None:
    assert InvalidSql("no such column", 2, 7).members == {"line": 2, "column": 7}
    assert InvalidSql("no such column", 2).members == {}


def test_a_mistake_in_sql_reads_with_its_place() -> None:
    assert str(InvalidSql("no such column", 2, 7)) == "line 2, column 7: no such column"
    assert str(InvalidSql("no such column", 2)) == str(InvalidSql("no such column")) == "no such column"


def test_who_took_its_quota_is_told_which_and_for_how_long_to_wait() -> None:
    error = OverQuota("user alice has taken it", "bytes", 7, closes=True)
    assert (error.code, error.members, error.retry_after_s, error.closes) == (
        "flow_control", {"quota": "bytes"}, 7, True,
    )  # fmt: skip
    assert OverQuota("too much").members == {}


def codes() -> dict[str, list[str]]:
    """The classes in all of lakemq that give themselves a code, by that code. Read, not imported: whichever
    room has been imported must not decide."""
    found: dict[str, list[str]] = {}
    for file in SOURCE.rglob("*.py"):
        for made in (node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ClassDef)):
            for code in code_of(made):
                found.setdefault(code, []).append(f"{file.relative_to(SOURCE)}: {made.name}")
    return found


def code_of(made: ast.ClassDef) -> list[str]:
    return [
        str(each.value.value)
        for each in made.body
        if isinstance(each, ast.Assign)
        and isinstance(each.targets[0], ast.Name)
        and each.targets[0].id == "code"
        and isinstance(each.value, ast.Constant)
    ]


def test_no_two_errors_share_a_code() -> None:
    found = codes()
    assert len(found) > 40
    assert {code: kinds for code, kinds in found.items() if len(kinds) > 1} == {}


def test_a_reader_is_told_where_both_logs_agree_if_that_is_known() -> None:
    assert EpochDiverged("it differs", 2, 150).members == {"epoch": 2, "position": 150}
    assert EpochDiverged("it differs").members == {}
