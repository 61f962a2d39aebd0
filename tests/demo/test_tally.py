"""What the demo's checks catch."""

from __future__ import annotations

from lakemq.cli.demo.tally import Outcome, Tally, total


def tally_of(*messages: tuple[int, str | None]) -> Tally:
    tally = Tally()
    for sequence, tail in messages:
        tally.add(sequence, tail)
    return tally


def test_all_flights_once_and_in_order_is_a_clean_outcome() -> None:
    first = tally_of((0, "N1"), (2, "N1"), (4, None))
    second = tally_of((1, "N2"), (3, "N2"))
    assert total([first, second], 5) == Outcome(5, 0, 0, 0, 0)


def test_a_flight_that_never_came_is_missing() -> None:
    assert total([tally_of((0, "N1"), (2, "N1"))], 3).missing == 1


def test_a_flight_that_came_twice_is_repeated_even_from_two_queues() -> None:
    outcome = total([tally_of((0, None), (0, None)), tally_of((0, None))], 1)
    assert (outcome.consumed, outcome.repeated) == (3, 2)


def test_a_tail_number_out_of_order_is_counted() -> None:
    assert tally_of((5, "N1"), (3, "N1"), (4, "N2")).out_of_order == 1


def test_flights_without_a_tail_number_have_no_order() -> None:
    assert tally_of((5, None), (3, None)).out_of_order == 0


def test_a_tail_number_in_two_queues_has_lost_its_order() -> None:
    assert total([tally_of((0, "N1")), tally_of((1, "N1"))], 2).split_tails == 1
