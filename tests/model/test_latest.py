"""The latest of all and of each kind."""

from __future__ import annotations

from lakemq.model.latest import latest_of


def test_the_latest_are_those_of_all_and_of_each_kind_the_newest_first() -> None:
    kinds = ["optimize", "optimize", "stats", "optimize", "erase", "stats", "optimize", "erase", "erase"]
    things = [(str(number), kind) for number, kind in enumerate(kinds)]

    def found(of_all: int, of_each: int) -> str:
        return "".join(name for name, _ in latest_of(things, lambda thing: thing[1], of_all, of_each))

    assert found(3, 0) == "012"
    assert found(0, 1) == "024"
    assert found(3, 2) == "012457"
    assert found(2, 10) == "012345678"
    assert latest_of([], str, 3, 2) == []
