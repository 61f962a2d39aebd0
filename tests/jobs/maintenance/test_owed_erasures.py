"""What an erasure could not erase in logs that were away: due once they are back, in no other log in their place."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from lakemq.jobs.maintenance.owed_erasures import PLACES, back, owe, owed, places_of, settle
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


def test_due_is_what_is_owed_of_a_log_that_is_back_under_its_name(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    assert back(lake, "http://127.0.0.1:1") == {}, "nothing is owed, so nobody is asked"
    with start_gateway(tmp_path / "log") as gateway:
        here = broker_of(gateway.url)["log_id"]
        owe(lake, {"broker-a": "another log", "broker-z": "away still"}, table(("broker-a", 1, "t")))
        assert back(lake, gateway.url) == {}, "its positions mean other messages"
        owe(lake, {"old-name": here}, table(("old-name", 1, "t")))
        assert back(lake, gateway.url) == {}, "its rows have another name in the lake"
        settle(lake, [here])
        owe(lake, {"broker-a": here}, table(("broker-a", 2, "t")))
        assert list(back(lake, gateway.url)) == [here]
