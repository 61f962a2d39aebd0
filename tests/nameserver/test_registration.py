"""What clients are shown of a broker's replicas."""

from __future__ import annotations

from lakemq.nameserver.registration import Share, show
from tests.nameserver.asking import told


def roles(*replicas: tuple[str, int]) -> list[str]:
    shown = show({number: told(role=role, epoch=epoch) for number, (role, epoch) in enumerate(replicas)})
    return [each.role for each in shown.replicas]


def test_the_primary_is_the_one_with_the_highest_epoch() -> None:
    assert roles(("primary", 3), ("primary", 4), ("follower", 5)) == ["follower", "primary", "follower"]


def test_of_two_primaries_of_one_epoch_it_is_the_same_one_everywhere() -> None:
    assert roles(("follower", 3), ("primary", 3), ("primary", 3)) == ["follower", "primary", "follower"]


def test_there_may_be_no_primary() -> None:
    assert roles(("follower", 1), ("follower", 1)) == ["follower", "follower"]


def test_the_primary_speaks_for_its_broker() -> None:
    shown = show({0: told("old", role="primary", epoch=1, cluster="a"), 1: told("new", epoch=2, cluster="b")})
    assert (shown.cluster, list(shown.topics)) == ("b", ["new"])


def test_without_a_primary_who_was_in_the_latest_epoch_speaks() -> None:
    replicas = {number: told(f"t{number}", role="follower", epoch=epoch) for number, epoch in enumerate((1, 2, 2))}
    assert list(show(replicas).topics) == ["t1"]


def test_a_broker_that_is_drained_narrows_what_its_topics_allow() -> None:
    topics = {"both": Share(4, "rw"), "read": Share(3, "r"), "write": Share(2, "w")}
    shown = show({0: told(permission="r")._replace(topics=topics)})
    assert shown.topics == {"both": Share(4, "r"), "read": Share(3, "r")}
    assert show({0: told()._replace(topics=topics)}).topics == topics
