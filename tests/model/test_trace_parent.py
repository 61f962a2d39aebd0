from __future__ import annotations

import pytest

from lakemq.model.trace_parent import PARENT_CHARACTERS_MAX, TraceParent, trace_parent_of

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize(("flags", "sampled"), [("00", False), ("01", True), ("02", False), ("03", True), ("ff", True)])
def test_a_parent_says_whether_its_trace_is_recorded(flags: str, sampled: bool) -> None:
    assert trace_parent_of(f"00-{TRACE}-{SPAN}-{flags}") == TraceParent(TRACE, SPAN, sampled)


@pytest.mark.parametrize("sampled", [True, False])
def test_what_is_written_is_read(sampled: bool) -> None:
    parent = TraceParent(TRACE, SPAN, sampled)
    assert trace_parent_of(str(parent)) == parent


def test_a_later_version_may_say_more_within_its_bound() -> None:
    later = f"01-{TRACE}-{SPAN}-01-"
    longest = later + "x" * (PARENT_CHARACTERS_MAX - len(later))
    assert trace_parent_of(longest) == TraceParent(TRACE, SPAN, sampled=True)
    assert trace_parent_of(longest + "x") is None
    assert trace_parent_of(later + "é") is None
