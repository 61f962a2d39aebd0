"""The rules of a search of all topics."""

from __future__ import annotations

import pytest

from lakemq.model import all_topics
from lakemq.model.all_topics import AllTopics


def test_the_newest_of_all_topics_are_kept_and_one_that_is_incomplete_says_so() -> None:
    found = AllTopics[int](3, abs)
    found.take([5, -1], complete=True)
    assert (found.messages, found.complete) == ([5, -1], True)
    found.take([7, 4], complete=False)
    found.take([], complete=True)
    assert (found.messages, found.complete, found.notes("you")) == ([7, 5, 4], False, ())


def test_it_says_where_it_stopped_and_what_it_may_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(all_topics, "TOPICS_MAX", 3)
    found = AllTopics[int](1, abs)
    found.take([1], complete=True)
    found.refuse()
    assert not found.is_full
    assert found.notes("you") == ("1 topic was not searched: you may not read them",)
    found.refuse(2)
    assert found.is_full
    found.stop("20 s", "orders")
    found.stop()
    assert found.notes("this user") == (
        "the search stopped after 20 s, before orders: name a topic to search it",
        "the search stopped after 3 topics: name a topic to search it",
        "3 topics were not searched: this user may not read them",
    )
