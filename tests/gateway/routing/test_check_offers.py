"""Which checks of a producer group are offered, and what it costs to look for them."""

from __future__ import annotations

from lakemq.gateway.routing.check_offers import CheckOffers
from lakemq.storage.state.open_halves import OpenHalf

ANSWER_MS = 1_000
MANY = 10_000


class Scene:
    """A group whose transactions are open, each once checked; the cause of a check is its origin and its number."""

    def __init__(self, count: int) -> None:
        self.open = {origin: OpenHalf(origin, origin * 100, 1, 0, "g") for origin in range(count)}
        self.offers = CheckOffers()
        self.looked = 0
        for origin in self.open:
            self.offers.add(origin)

    def find(self, origin: int) -> OpenHalf | None:
        self.looked += 1
        return self.open.get(origin)

    def take(self, now_ms: int, *topics: str, most: int = 2) -> list[OpenHalf]:
        return self.offers.take(self.find, lambda topic: topic in topics, now_ms, now_ms + ANSWER_MS, most)


def origins(halves: list[OpenHalf]) -> list[int]:
    return [each.origin for each in halves]


def test_a_check_is_one_client_s_until_it_has_not_answered_in_time() -> None:
    scene = Scene(3)
    assert scene.offers.next_ms() is None
    assert origins(scene.take(0)) == [0, 1]
    assert origins(scene.take(1)) == [2]
    assert (scene.take(ANSWER_MS - 1), scene.offers.next_ms()) == ([], ANSWER_MS)
    assert origins(scene.take(ANSWER_MS)) == [0, 1]
    assert scene.offers.next_ms() == ANSWER_MS + 1


def test_what_is_resolved_is_forgotten_and_a_new_check_is_offered_at_once() -> None:
    scene = Scene(3)
    scene.take(0, most=3)
    scene.open[1] = OpenHalf(1, 101, 2, 0, "g")
    scene.offers.add(1)
    (again,) = scene.take(1)
    assert (again.origin, again.cause) == (1, 101)
    del scene.open[0]
    scene.open[2].resolution = "commit"
    assert scene.offers
    assert scene.take(ANSWER_MS) == []
    assert origins(scene.take(ANSWER_MS + 1)) == [1]
    scene.open.clear()
    assert scene.take(3 * ANSWER_MS) == []
    assert not scene.offers


def test_what_is_of_a_topic_that_one_may_not_is_left_to_others() -> None:
    scene = Scene(2)
    for half, topic in zip(scene.take(0), ("mine", "theirs"), strict=True):
        scene.offers.learn(half, topic, is_kept=topic == "mine")
    assert scene.take(1, "mine") == []
    assert origins(scene.take(1, "theirs")) == [1]
    assert origins(scene.take(2 * ANSWER_MS, "mine")) == [0]
    stale = OpenHalf(1, 7, 1, 0, "g")
    scene.offers.learn(stale, "mine", is_kept=False)  # it was read for another check
    assert origins(scene.take(2 * ANSWER_MS, "mine", "theirs")) == [1]


def test_what_is_for_nobody_is_not_offered_again() -> None:
    scene = Scene(2)
    gone, kept = scene.take(0)
    scene.offers.withdraw(gone)
    scene.offers.withdraw(OpenHalf(kept.origin, 7, 1, 0, "g"))  # it was read for another check
    assert origins(scene.take(ANSWER_MS)) == [kept.origin]
    scene.offers.withdraw(kept)
    assert not scene.offers
    assert scene.take(2 * ANSWER_MS) == []


def test_a_poll_costs_what_it_takes_however_many_are_open() -> None:
    scene = Scene(MANY)
    scene.take(0, most=MANY // 2)
    scene.looked = 0
    for _ in range(10):
        assert len(scene.take(1, most=32)) == 32
    assert scene.looked == 320
    for half in scene.take(2, most=MANY):
        scene.offers.learn(half, "theirs", is_kept=False)
    scene.looked = 0
    assert scene.take(3, "mine") == []
    assert scene.looked == 0


def test_what_was_resolved_does_not_pile_up_where_nobody_asks() -> None:
    scene = Scene(MANY)
    for origin in range(MANY):
        del scene.open[origin]
        scene.open[MANY + origin] = OpenHalf(MANY + origin, 7, 1, 0, "g")
        scene.offers.add(MANY + origin)
        scene.offers.tidy(scene.find)
    scene.looked = 0
    assert origins(scene.take(0, most=2 * MANY)) == list(range(MANY, 2 * MANY))
    assert scene.looked < MANY + MANY // 2
