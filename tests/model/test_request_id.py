from __future__ import annotations

import pytest

from lakemq.model.request_id import REQUEST_ID_MAX, is_request_id, trace_id_of

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize("text", ["a", "7f3c-1", "a" * REQUEST_ID_MAX, "Root=1-67891233-abcdef", "a/b:c+d@e_f.g"])
def test_an_id_that_may_stand_anywhere_is_taken(text: str) -> None:
    assert is_request_id(text)


@pytest.mark.parametrize(
    "text", ["", "a" * (REQUEST_ID_MAX + 1), "a b", "a\n", "a\nb", 'a"', "a\\", "é", "\x1b[2J", "a,b"]
)
def test_any_other_is_none(text: str) -> None:
    assert not is_request_id(text)


@pytest.mark.parametrize("parent", [f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-00", f"cc-{TRACE}-{SPAN}-01-more"])
def test_the_trace_of_a_parent_is_known_also_of_a_later_version(parent: str) -> None:
    assert trace_id_of(parent) == TRACE


@pytest.mark.parametrize(
    "parent",
    [
        "",
        "x",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01\n",
        f"00-{TRACE}-{SPAN}",
    ],
)
def test_what_the_standard_calls_invalid_is_none(parent: str) -> None:
    assert trace_id_of(parent) is None
