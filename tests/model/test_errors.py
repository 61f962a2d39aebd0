"""The tree of errors: clients branch on its codes."""

from __future__ import annotations

from lakemq.model.errors import LakemqError, TopicNotFound


def test_an_error_has_its_detail_for_people_and_its_code_for_programs() -> None:
    error = TopicNotFound("no topic 'x'")
    assert (error.detail, str(error), error.code) == ("no topic 'x'", "no topic 'x'", "topic_not_found")


def test_no_two_errors_share_a_code() -> None:
    codes = [kind.code for kind in LakemqError.__subclasses__() if kind.__module__ == "lakemq.model.errors"]
    assert len(codes) == len(set(codes)) > 10
