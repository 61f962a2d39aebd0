"""What ordered receives keep in memory, whatever filters a client thinks of."""

from __future__ import annotations

import pytest

from lakemq.gateway.receipts.receive_request import filter_key
from lakemq.gateway.receive import backlog
from lakemq.gateway.receive.backlog import Backlog, Backlogs, Key

QUEUES_MAX, OF_GROUP_MAX, ENTRIES_MAX, GROWN_MAX = 10, 4, 100, 50


@pytest.fixture
def backlogs(monkeypatch: pytest.MonkeyPatch) -> Backlogs:
    monkeypatch.setattr(backlog, "BACKLOGS_MAX", QUEUES_MAX)
    monkeypatch.setattr(backlog, "GROUP_BACKLOGS_MAX", OF_GROUP_MAX)
    monkeypatch.setattr(backlog, "ENTRIES_MAX", ENTRIES_MAX)
    monkeypatch.setattr(backlog, "GROWN_MAX", GROWN_MAX)
    return Backlogs()


def key(group: str, number: int) -> Key:
    return group, "t", f"filter {number}", "t", 0


def leave(backlogs: Backlogs, at: Key, count: int) -> Backlog:
    """Leave so many messages behind."""
    found = backlogs.of(at, 0, (0, 0))
    for offset in range(count):
        found.leave("k", offset)
    backlogs.tidy(count)
    return found


def test_a_filter_is_known_by_a_short_text() -> None:
    """Each was kept as it is: 16 MB for 1,000 receives with other filters."""
    keys = [
        filter_key(tags, sql)
        for tags, sql in [(None, None), ("a", None), (None, "a"), ("a", "a"), ("a', 'a", None), (None, "x" * 16_000)]
    ]
    assert len(set(keys)) == len(keys)
    assert max(map(len, keys)) == 32
    assert filter_key(None, "\ud800"), "a half of a pair is a text too"


def test_a_group_with_ever_other_filters_takes_room_from_nobody(backlogs: Backlogs) -> None:
    others = {group: leave(backlogs, key(group, 0), 1) for group in ("g", "h")}
    for number in range(10 * QUEUES_MAX):
        leave(backlogs, key("attacker", number), 1)
    kept = [number for number in range(10 * QUEUES_MAX) if backlogs.of(key("attacker", number), 0, (0, 0)).count]
    assert len(kept) <= QUEUES_MAX
    for group, its_own in others.items():
        assert backlogs.of(key(group, 0), 0, (0, 0)) is its_own


def test_many_groups_keep_those_that_were_looked_at_last(backlogs: Backlogs) -> None:
    made = [leave(backlogs, key(f"g{number}", 0), 1) for number in range(2 * QUEUES_MAX)]
    for number in reversed(range(QUEUES_MAX, 2 * QUEUES_MAX)):
        assert backlogs.of(key(f"g{number}", 0), 0, (0, 0)) is made[number]
    assert backlogs.of(key("g0", 0), 0, (0, 0)) is not made[0]


def test_what_is_left_behind_in_all_is_bounded(backlogs: Backlogs) -> None:
    for number in range(3):
        leave(backlogs, key("g", number), ENTRIES_MAX - 1)
    assert backlogs.of(key("g", 2), 0, (0, 0)).count == ENTRIES_MAX - 1
    assert backlogs.of(key("g", 0), 0, (0, 0)).count == 0
    assert backlogs.of(key("g", 1), 0, (0, 0)).count == 0
