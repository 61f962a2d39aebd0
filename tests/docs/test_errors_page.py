"""The table of errors is that of the code, and names all that a client can be answered."""

from __future__ import annotations

from lakemq.contract.errors import error_of_code
from lakemq.model.errors import LakemqError
from lakemq.web.problems import STATUS
from tests.docs.errors import PART, kinds, parts, table

OF_JOBS_AND_REPLICAS = {
    "broker_unavailable",
    "epoch_diverged",
    "fenced",
    "leader_lives",
    "log_replaced",
    "not_in_sync",
    "part_not_found",
    "sink_not_found",
}
"""Codes of answers that no method of `lakemq.client` gets."""
WITHOUT_CLASS = {
    "internal",
    "method_not_allowed",
    "not_found",
    "request_too_slow",
    "wrong_host",
    "wrong_origin",
}
"""Codes that say that a program is no client of lakemq, or that lakemq has a fault: `LakemqError` itself."""


def test_the_table_is_up_to_date() -> None:
    assert PART.written() == table(), "python -m tests.docs.errors writes it"


def test_each_error_says_what_to_do() -> None:
    for kind in kinds():
        assert all(parts(kind)), kind


def test_an_answer_may_have_the_code_of_any() -> None:
    """Whatever answers can't have a client fail by an error that is none."""
    for kind in kinds():
        assert error_of_code(kind.code, "detail").detail == "detail"


def test_each_code_that_a_client_is_answered_has_its_error_there() -> None:
    codes = STATUS.keys() - OF_JOBS_AND_REPLICAS
    found = {code: type(error_of_code(code, "")) for code in codes}
    assert {code for code, kind in found.items() if kind is LakemqError} == WITHOUT_CLASS
    assert set(found.values()) - {LakemqError} <= set(kinds())
