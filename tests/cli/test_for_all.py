"""Options for all commands are found wherever they stand."""

from __future__ import annotations

import pytest

from lakemq.cli.app import command
from lakemq.cli.for_all import in_front, names_for_all

NAMES = ("--config", "--token-file")


@pytest.mark.parametrize(
    ("given", "front", "others"),
    [
        ("topic list", "", "topic list"),
        ("--config f topic list", "--config f", "topic list"),
        ("gateway --port 1 --config f --host h", "--config f", "gateway --port 1 --host h"),
        ("gateway --token-file=t --config=f -v", "--token-file=t --config=f", "gateway -v"),
        ("gateway --config", "", "gateway --config"),
        ("--config f gateway --config g", "--config f --config g", "gateway"),
        ("produce t --tag x -- --config f", "", "produce t --tag x -- --config f"),
    ],
)
def test_they_come_in_front(given: str, front: str, others: str) -> None:
    assert in_front(NAMES, given.split()) == [*front.split(), *others.split()]


def test_they_are_those_of_lakemq_itself_that_take_a_value() -> None:
    assert names_for_all(command()) == NAMES
