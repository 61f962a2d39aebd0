"""What of a topic's retries is waited for, and how little of it is looked at."""

from __future__ import annotations

from typing import Any

import pytest

from lakemq.storage.state.subscription import Subscription, Waiting

RETRIES = 1_000


class NotLookedThrough(dict[int, Waiting]):
    """What waits can be found, and not looked through."""

    def __iter__(self) -> Any:
        pytest.fail("all that waits was looked through")


def waiting() -> Subscription:
    """A subscription whose retries all wait."""
    subscription = Subscription("g", "t")
    for offset in range(RETRIES):
        subscription.wait_for(offset, f"key {offset % 2}", 10 * offset)
    return subscription


def test_who_forgets_some_retries_does_not_look_at_all_that_wait() -> None:
    """A receive does so for each range that has expired, on the event loop: it stood still for seconds."""
    subscription = waiting()
    subscription.waiting = NotLookedThrough(subscription.waiting)
    for offset in range(0, RETRIES, 2):
        subscription.forget_retries_between(offset, offset + 1)
    assert subscription.keys_waiting == {"key 1": RETRIES // 2}
    assert len(subscription.waiting) == RETRIES // 2


def test_a_range_of_any_length_is_forgotten_as_far_as_it_goes() -> None:
    subscription = waiting()
    subscription.forget_retries_between(RETRIES, 2**62)
    assert len(subscription.waiting) == RETRIES
    subscription.forget_retries_between(RETRIES - 10, 2**62)
    assert len(subscription.waiting) == RETRIES - 10
    subscription.forget_retries_below(20)
    assert min(subscription.waiting) == 20
    subscription.forget_retries_below(2**62)
    assert not subscription.waiting
    assert not subscription.keys_waiting
