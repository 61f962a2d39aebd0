from __future__ import annotations

import pytest

from lakemq.model.keep import Keep, keep_of, parse_keep


@pytest.mark.parametrize(
    ("text", "keep"),
    [
        ("30d", Keep(30 * 86_400_000)),
        ("12h", Keep(12 * 3_600_000)),
        ("500MiB", Keep(None, 500 * 1024**2)),
        ("1GiB 90s", Keep(90_000, 1024**3)),
    ],
)
def test_a_rule_is_a_time_a_size_or_both(text: str, keep: Keep) -> None:
    assert parse_keep(text) == keep


@pytest.mark.parametrize("text", ["", "30", "d", "-1d", "1d 2h", "1MiB 2B", "1 d", "3GB"])
def test_what_is_no_rule_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"neither|is no time|second limit"):
        parse_keep(text)


def test_the_first_matching_rule_holds_and_a_star_leaves_system_topics_alone() -> None:
    rules = {"audit-*": "365d", "*": "30d", "%RETRY%*": "1d"}
    assert keep_of("audit-log", rules) == Keep(365 * 86_400_000)
    assert keep_of("orders", rules) == Keep(30 * 86_400_000)
    assert keep_of("%RETRY%g", rules) == Keep(86_400_000)
    assert keep_of("RMQ_SYS_TOPICS", rules) is None
    assert keep_of("orders", {}) is None
