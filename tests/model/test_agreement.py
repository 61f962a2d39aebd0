"""Two logs agree on their common beginning, whatever lives they had."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemq.model.agreement import Epoch, History, agreed, goes_on, may_share

Log = list[int]
"""The epoch of the message at each position: in one epoch a position has one message."""

LIVES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 5), st.integers(0, 5)), max_size=25)
"""Which replica goes on, as whose follower if not as a leader, how much it takes or writes, and whether it begins an
epoch first."""


class Replica:
    """A log and its epochs, as frames make them."""

    def __init__(self) -> None:
        self.log: Log = []
        self.epochs: list[Epoch] = [(1, 0)]

    @property
    def history(self) -> History:
        return History(tuple(self.epochs), len(self.log))

    def lead(self, epoch: int, count: int) -> None:
        self.epochs.append((epoch, len(self.log)))
        self.log += [epoch] * count

    def follow(self, leader: Replica, count: int) -> None:
        """Cut what the leader doesn't have, and take some of what it has; an epoch is known by its first frame."""
        common = agreed(self.history, leader.history)
        assert common is not None
        end = min(common + count, len(leader.log))
        self.log = self.log[:common] + leader.log[common:end]
        self.epochs = [each for each in leader.epochs if each[1] < end or each == (1, 0)]


def common_beginning(one: Log, other: Log) -> int:
    pairs = zip(one, other, strict=False)
    return next((at for at, (mine, its) in enumerate(pairs) if mine != its), min(len(one), len(other)))


def lived(lives: list[tuple[int, int, int, int]]) -> list[Replica]:
    replicas = [Replica() for _ in range(3)]
    for epoch, (one, other, count, what) in enumerate(lives, 2):
        if what < 2:
            replicas[one].lead(epoch, count)
        elif one != other:
            replicas[one].follow(replicas[other], count)
    return replicas


@given(LIVES)
def test_a_log_goes_on_from_another_by_the_epoch_of_that_ones_end_just_where_it_holds_all_of_it(
    lives: list[tuple[int, int, int, int]],
) -> None:
    replicas = lived(lives)
    for one in replicas:
        for other in replicas:
            end, epoch = len(one.log), one.log[-1] if one.log else 1
            if end <= len(other.log):
                is_so = common_beginning(one.log, other.log) == end
                assert goes_on(other.epochs, epoch, end) == is_so


@given(LIVES)
def test_who_asks_again_and_again_comes_to_the_common_beginning(lives: list[tuple[int, int, int, int]]) -> None:
    replicas = lived(lives)
    for one in replicas:
        for other in replicas:
            end, epoch = len(one.log), one.log[-1] if one.log else 1
            while not goes_on(other.epochs, epoch, end):
                number, position = may_share(other.epochs, epoch, end)
                kept = sum(each <= number for each in one.log[:position])
                assert kept < end
                end, epoch = kept, one.log[kept - 1] if kept else 1
            assert min(end, len(other.log)) == common_beginning(one.log, other.log)


@pytest.mark.parametrize(
    ("epoch", "end", "shared"),
    [
        (1, 150, (1, 100)),  # it has more of an epoch that ended earlier here
        (3, 150, (2, 150)),  # it was in an epoch that isn't here
        (3, 250, (2, 200)),
        (5, 250, (4, 250)),
        (3, 50, (1, 50)),  # and ends before the one here that is next to it
        (2, 50, (1, 50)),
    ],
)
def test_what_a_log_that_does_not_go_on_may_share(epoch: int, end: int, shared: Epoch) -> None:
    epochs = [(1, 0), (2, 100), (4, 200)]
    assert not goes_on(epochs, epoch, end)
    assert may_share(epochs, epoch, end) == shared


def test_what_is_older_than_all_epochs_that_are_known_is_not_told() -> None:
    assert goes_on([(3, 10), (4, 20)], 2, 15)
    assert not goes_on([(3, 10), (4, 20)], 3, 21)


@given(LIVES)
def test_logs_of_any_lives_agree_on_just_their_common_beginning(lives: list[tuple[int, int, int, int]]) -> None:
    replicas = lived(lives)
    for one in replicas:
        for other in replicas:
            found = agreed(one.history, other.history)
            assert found == common_beginning(one.log, other.log)
            assert one.log[:found] == other.log[:found]


@given(LIVES, st.integers(1, 4))
def test_a_list_without_its_oldest_epochs_says_the_same_or_nothing(
    lives: list[tuple[int, int, int, int]], known: int
) -> None:
    replicas = [Replica() for _ in range(2)]
    for epoch, (one, _, count, what) in enumerate(lives, 2):
        if what < 2:
            replicas[one % 2].lead(epoch, count)
        else:
            replicas[one % 2].follow(replicas[1 - one % 2], count)
    own, its = (replica.history for replica in replicas)
    newest = its._replace(epochs=its.epochs[-known:])
    assert agreed(own, newest) in (None, agreed(own, its))
    assert agreed(newest, own) == agreed(own, newest)


@pytest.mark.parametrize(
    ("own", "its", "position"),
    [
        (([(1, 0)], 100), ([(1, 0)], 100), 100),
        (([(1, 0)], 100), ([(1, 0)], 80), 80),
        (([(1, 0)], 80), ([(1, 0), (2, 90)], 200), 80),
        (([(1, 0)], 100), ([(1, 0), (2, 80)], 200), 80),
        (([(1, 0), (2, 80)], 120), ([(1, 0), (3, 100)], 200), 80),
        (([(1, 0), (2, 80), (4, 120)], 130), ([(1, 0), (2, 80), (3, 110)], 200), 110),
        (([(1, 0), (2, 50)], 60), ([(1, 0), (2, 50), (3, 50)], 90), 50),
    ],
)
def test_what_one_has_beyond_the_other_is_not_agreed_on(
    own: tuple[list[Epoch], int], its: tuple[list[Epoch], int], position: int
) -> None:
    mine, theirs = (History(tuple(epochs), end) for epochs, end in (own, its))
    assert agreed(mine, theirs) == agreed(theirs, mine) == position


def test_an_epoch_that_two_have_begun_at_different_positions_is_none_that_they_share() -> None:
    own, its = History(((1, 0), (2, 80), (3, 90)), 100), History(((1, 0), (2, 70), (3, 90)), 100)
    assert agreed(own, its) == 70


def test_nothing_is_said_where_the_oldest_epoch_that_is_known_is_lacking() -> None:
    own, its = History(((1, 0), (2, 80)), 100), History(((3, 90), (4, 95)), 100)
    assert agreed(own, its) is None
    assert agreed(its, own) is None
