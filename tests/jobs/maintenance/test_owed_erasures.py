"""What an erasure could not erase in logs that were away: due once they are back, in no other log in their place."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from lakemq.jobs.maintenance.owed_erasures import Owed, away, back, first_of, owe, owed, places_of, settle
from lakemq.jobs.maintenance.places import PLACES, count_by, positions_of, united
from lakemq.testing import start_gateway
from tests.jobs.lake_checks import broker_of


def table(*places: tuple[str, int, str]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(PLACES.names, place, strict=True)) for place in places], PLACES)


def test_what_is_owed_is_kept_by_log_and_grows(tmp_path: Path) -> None:
    assert owed(tmp_path) == {}
    found = table(("z", 4, "t"), ("z", 5, "t"), ("z", 9, "u"), ("y", 1, "t"), ("here", 7, "t"))
    owe(tmp_path, {"z": "log of z", "y": "log of y"}, found)
    owe(tmp_path, {"z": "log of z"}, table(("z", 5, "t"), ("z", 6, "t"), ("z", 8, "u")))
    owe(tmp_path, {}, found)
    debts = owed(tmp_path)
    assert places_of(debts[log] for log in ("log of z", "log of y")) == table(
        ("z", 4, "t"), ("z", 5, "t"), ("z", 6, "t"), ("z", 8, "u"), ("z", 9, "u"), ("y", 1, "t")
    )
    settle(tmp_path, [])
    settle(tmp_path, ["log of z"])
    assert list(owed(tmp_path)) == ["log of y"]


def test_due_is_what_is_owed_of_a_log_that_is_back(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    assert back(lake, "http://127.0.0.1:1") == {}, "nothing is owed, so nobody is asked"
    with start_gateway(tmp_path / "log") as gateway:
        here = broker_of(gateway.url)["log_id"]
        owe(lake, {"broker-a": "another log", "broker-z": "away still"}, table(("broker-a", 1, "t")))
        assert back(lake, gateway.url) == {}, "its positions mean other messages"
        owe(lake, {"old-name": here}, table(("old-name", 1, "t")))
        due = places_of(back(lake, gateway.url).values())
        assert due == table(("broker-a", 1, "t")), "its rows come again under the name that it has now"
        logs = {"broker-a": here, "broker-z~1": "away still"}
        owe(lake, {"broker-z": "away still"}, table(("broker-z", 2, "t")))
        assert places_of(away(lake, logs, [here])) == table(("broker-z~1", 2, "t")), "the lake has it under this one"
        logs |= {"broker-z": "away still"}
        both = table(("broker-z", 2, "t"), ("broker-z~1", 2, "t"))
        assert united(places_of(away(lake, logs, [here])), PLACES.empty_table()) == both, "put back, under its old name"
        settle(lake, [here])
        assert back(lake, gateway.url) == {}


def test_a_debt_is_paid_in_parts_and_what_is_left_is_owed_still(tmp_path: Path) -> None:
    found = table(("y", 1, "t"), ("z", 4, "t"), ("z", 5, "t"), ("z", 6, "t"), ("z", 9, "u"))
    owe(tmp_path, {"y": "log of y", "z": "log of z"}, found)
    paid = PLACES.empty_table()
    for most, left in ((3, 2), (0, 2), (1, 1), (9, 0)):
        first, rest = first_of(owed(tmp_path), most)
        assert sum(debt.size for debt in first.values()) <= most
        paid = united(paid, places_of(first.values()))
        settle(tmp_path, first, rest)
        assert sum(debt.size for debt in owed(tmp_path).values()) == left
    assert (paid, owed(tmp_path)) == (found, {})
    assert Owed("z", {}).size == 0


def test_places_are_united_in_the_order_of_the_logs_and_grouped() -> None:
    found = united(table(("z", 4, "t"), ("y", 3, "u")), table(("y", 1, "t"), ("z", 4, "t"), ("y", 2, "u")))
    assert found == table(("y", 1, "t"), ("y", 2, "u"), ("y", 3, "u"), ("z", 4, "t"))
    assert positions_of(found) == {"y": [1, 2, 3], "z": [4]}
    assert positions_of(found, "topic") == {"t": [1, 4], "u": [2, 3]}
    assert (count_by(found, "broker"), positions_of(PLACES.empty_table())) == ({"y": 3, "z": 1}, {})
