"""What is handed out, by group and by topic: what concerns one looks at no other."""

from __future__ import annotations

from array import array
from typing import Any, NoReturn

import pytest

from lakemq.storage.state.receipts import NO_CAUSE, Handed, Named, Receipts
from lakemq.storage.state.steps import finish
from lakemq.storage.state.subscription import Order, Subscription

UNTIL_MS = 5_000
RETRIES = "%RETRY%g"


class NotLookedThrough(dict[tuple[str, str], Subscription]):
    """Subscriptions that can be found, and not looked through."""

    def _refuse(self) -> NoReturn:
        pytest.fail("all subscriptions were looked through")

    def values(self) -> Any:
        self._refuse()

    def items(self) -> Any:
        self._refuse()

    def __iter__(self) -> Any:
        self._refuse()


def hand_out(receipts: Receipts, position: int, *places: tuple[str, str]) -> None:
    """Hand the first message of each topic out to the group; the receipts begin at a position."""
    bodies, names = list[bytes](), list[Named]()
    for number, (group, topic) in enumerate(places):
        handed = Handed(0, 1, 16, 1_000 + position + number, 0, UNTIL_MS, 0, NO_CAUSE, 0)
        bodies.append(array("q", handed).tobytes())
        names.append((group, None, topic, None))
    receipts.hand_out(position, bodies, names)


PLACES = [(group, topic) for group in ("g", "h", "i") for topic in ("t", "u")]


def made() -> Receipts:
    """Three groups that have received of two topics; one message is out still."""
    receipts = Receipts()
    hand_out(receipts, 0, *PLACES)
    receipts.acknowledge(range(1, len(PLACES)))
    receipts.subscriptions = NotLookedThrough(receipts.subscriptions)
    return receipts


def test_a_topic_that_is_deleted_takes_the_places_in_it_and_nobody_looks_at_others() -> None:
    """All were looked through, on the event loop, at each deletion."""
    receipts = made()
    receipts.forget_topic("t")
    receipts.forget_topic("unknown")
    assert [place for place in PLACES if receipts.find(*place)] == [("g", "t"), ("g", "u"), ("h", "u"), ("i", "u")]
    assert receipts.topics_of("g") == {"t", "u"}
    assert receipts.topics_of("h") == {"u"}


def test_a_group_that_is_deleted_or_reset_concerns_no_other() -> None:
    receipts = made()
    assert receipts.retry_floor("g") is None
    receipts.reset("g", "t", {0: 0})
    assert not receipts.out
    receipts.forget_group("g")
    receipts.forget_group("unknown")
    assert receipts.topics_of("g") == set()
    assert receipts.groups() == {"h", "i"}
    assert [place for place in PLACES if receipts.find(*place)] == PLACES[2:]


def test_what_is_restored_is_found_by_group_and_by_topic_too() -> None:
    receipts, restored = Receipts(), Receipts()
    hand_out(receipts, 0, *PLACES)
    receipts.settle(0, "RMQ_SYS_NACK_TOPIC", 10, 0)
    restored.restore(receipts.dump())
    for each in (receipts, restored):
        assert list(each.delayed) == [10]
        each.acknowledge(range(len(PLACES)))
        each.forget_topic("t")
        assert each.topics_of("h") == {"u"}
        assert not each.delayed


def hand_out_retries(receipts: Receipts, position: int, low: int, *offsets: int) -> None:
    """Hand these retries of topic `t` out to the group, which goes on at `low` then."""
    bodies = [
        array("q", Handed(offset, low, 16, 2_000 + offset, 1, UNTIL_MS, 0, NO_CAUSE, 0)).tobytes() for offset in offsets
    ]
    receipts.hand_out(position, bodies, [("g", "t", RETRIES, None)] * len(offsets))


def waiting(*orders: Order) -> tuple[Receipts, Subscription]:
    """A group that has a retry of each order waiting, and how far it is in topic `t`."""
    receipts = Receipts()
    hand_out(receipts, 0, ("g", "t"))
    receipts.acknowledge([0])
    subscription = receipts.find("g", "t")
    assert subscription is not None
    for offset, order in enumerate(orders):
        subscription.wait_for(offset, order, 100 + offset)
    return receipts, subscription


def test_a_retry_that_was_passed_over_holds_up_its_order_no_more() -> None:
    """It had expired. Only the gateway that saw it knew that, so its key was stuck for good after a crash."""
    receipts, subscription = waiting("K", "L", "M")
    hand_out_retries(receipts, 1_000, 2, 1)
    assert subscription.keys_waiting == {"M": 1}
    assert list(subscription.waiting) == [2]


def test_retries_that_are_handed_out_together_keep_their_orders() -> None:
    receipts, subscription = waiting(0, "K", 1, 2, "N")
    hand_out_retries(receipts, 1_000, 4, 0, 2, 3)
    assert subscription.keys_out == {0: 1, 1: 1, 2: 1}
    assert subscription.keys_waiting == {"N": 1}


def test_what_was_passed_over_and_left_behind_still_waits() -> None:
    receipts, subscription = waiting("K", "L", "M")
    hand_out_retries(receipts, 1_000, 0, 2)
    assert subscription.keys_waiting == {"K": 1, "L": 1}


def test_a_state_of_before_with_retries_that_wait_for_good_is_restored_without_them() -> None:
    receipts, subscription = waiting("K", "L", "M")
    hand_out_retries(receipts, 1_000, 2, 1)
    dumped = receipts.dump()
    dumped["subscriptions"][0]["waiting"].append([0, "K", 100])
    restored = Receipts()
    restored.restore(dumped)
    found = restored.find("g", "t")
    assert found is not None
    assert found.keys_waiting == subscription.keys_waiting == {"M": 1}


def retried(receipts: Receipts, position: int, offset: int) -> None:
    """Hand a retry of `t` out to `g`, and have it acknowledged."""
    handed = Handed(offset, offset + 1, 16, 1_000 + position, 1, UNTIL_MS, 0, NO_CAUSE, 0)
    receipts.hand_out(position, [array("q", handed).tobytes()], [("g", "t", RETRIES, None)])
    receipts.acknowledge([position])


def low(receipts: Receipts) -> int | None:
    """How far `g` is in its retries of `t`."""
    cursor = receipts.cursor("g", "t", (RETRIES, 0))
    return None if cursor is None else cursor.low


def test_what_a_topic_leaves_in_the_retries_is_kept_until_its_group_is_deleted() -> None:
    receipts, restored = Receipts(), Receipts()
    retried(receipts, 0, 4)
    receipts.forget_topic("t")
    restored.restore(receipts.dump())
    assert finish(receipts.copy_in_steps()).dump()["left"] == receipts.dump()["left"] == restored.dump()["left"]
    for each in (receipts, restored):
        assert (each.find("g", "t"), each.retry_floor("g"), low(each)) == (None, None, 5)
        each.reset("g", RETRIES, {0: 3})
        assert low(each) == 3
        hand_out(each, 10, ("g", "t"))
        assert low(each) == 3
        assert "left" not in each.dump()
        each.acknowledge([10])
        each.forget_topic("t")
        each.forget_group("g")
        assert low(each) is None
