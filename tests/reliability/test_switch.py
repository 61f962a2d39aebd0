"""The quick form of `python -m tests.reliability.switch`, and whether it finds what it looks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.reliability.switch import Ledger, Taken, find, percentile, run


def test_leaders_that_die_under_load_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    done = run(tmp_path, deaths=2, seed=3, count=2)
    assert done.findings == []
    assert done.messages > 60
    assert len(done.seconds) == 2


def stored(body: str, position: int, message_id: str = "") -> dict[str, Any]:
    return {"body": body, "position": position, "message_id": message_id or f"id-{position}"}


def test_what_is_lost_twice_out_of_order_or_at_one_place_is_found() -> None:
    ledger = Ledger()
    for number, position in enumerate((3, 4, 5, 5)):
        ledger.sent[f"0-{number}"] = number
        ledger.taken[f"0-{number}"] = Taken(f"id-{position}", position, 0.0)
    sound = [stored("0-0", 3), stored("0-1", 4), stored("0-2", 5), stored("0-3", 5)]
    assert find(ledger, sound) == ["position 5 was acknowledged 2 times"]
    del ledger.taken["0-3"]
    assert find(ledger, sound) == []
    assert find(ledger, sound[1:]) == ["0-0 was acknowledged at 3, and is lost"]
    assert find(ledger, [stored("0-0", 9), *sound[1:]]) == ["0-0 was acknowledged as id-3, and is ('id-9', 9)"]
    assert find(ledger, [*sound, stored("0-3", 6)]) == ["0-3 is stored 2 times", "0-3 comes after 0-3"]
    assert find(ledger, [sound[1], sound[0], *sound[2:]]) == ["0-0 comes after 0-1"]
    assert find(ledger, [*sound, stored("0-9", 9)]) == ["nobody has sent 0-9"]


def test_a_percentile_is_one_of_the_values() -> None:
    assert [percentile([3.0, 1.0, 2.0], part) for part in (0.0, 0.5, 0.99)] == [1.0, 2.0, 3.0]
