"""Which of a broker's replicas is its primary."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakemq.model.primary import FOLLOWER, PRIMARY, Claim, foremost_of, primary_of

CLAIMS = st.lists(
    st.builds(Claim, st.integers(0, 9), st.sampled_from([PRIMARY, FOLLOWER]), st.integers(0, 3)),
    unique_by=lambda claim: claim.replica,
    max_size=6,
)
RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def itself(claim: Claim) -> Claim:
    return claim


@pytest.mark.parametrize(
    ("claims", "primary", "foremost"),
    [
        ([], None, None),
        ([(0, FOLLOWER, 3)], None, 0),
        ([(0, FOLLOWER, 3), (1, FOLLOWER, 4)], None, 1),
        ([(0, PRIMARY, 3), (1, PRIMARY, 4), (2, FOLLOWER, 5)], 1, 2),
        ([(1, PRIMARY, 10), (0, PRIMARY, 9)], 1, 1),
        ([(0, FOLLOWER, 3), (2, PRIMARY, 3), (1, PRIMARY, 3)], 1, 0),
        ([(10, PRIMARY, 3), (9, PRIMARY, 3)], 9, 9),
    ],
)
def test_the_highest_epoch_is_first_and_then_the_lowest_number(
    claims: list[tuple[int, str, int]], primary: int | None, foremost: int | None
) -> None:
    told = [Claim(*each) for each in claims]
    by_number = {each.replica: each for each in told}
    assert primary_of(told, itself) is (None if primary is None else by_number[primary])
    assert foremost_of(told, itself) is (None if foremost is None else by_number[foremost])


@RELAXED
@given(CLAIMS, st.randoms())
def test_everybody_finds_the_same_one_in_whatever_order(claims: list[Claim], random: Random) -> None:
    shuffled = random.sample(claims, len(claims))
    assert primary_of(shuffled, itself) is primary_of(claims, itself)
    assert foremost_of(shuffled, itself) is foremost_of(claims, itself)


@RELAXED
@given(CLAIMS)
def test_no_other_that_says_so_is_before_the_primary(claims: list[Claim]) -> None:
    found = primary_of(claims, itself)
    says_so = [each for each in claims if each.role == PRIMARY]
    assert (found is None) == (not says_so)
    for each in says_so:
        assert found is not None
        assert each.epoch < found.epoch or (each.epoch == found.epoch and each.replica >= found.replica)
