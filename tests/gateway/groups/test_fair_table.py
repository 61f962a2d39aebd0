"""The table in which nobody's give way while somebody else has more, against a slow one that is plainly right."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from lakemq.gateway.groups.fair_table import FairTable

MOST = 6
steps = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 12), st.sampled_from(["put", "put", "pop"])))


def test_who_puts_as_many_as_he_can_takes_no_room_that_others_need() -> None:
    table: FairTable[str, str, int] = FairTable(1_000)
    for number in range(50):
        table.put("rosa", f"r{number}", number)
    gone = [table.put("mallory", f"m{number}", number) for number in range(10_000)]
    assert sum(each is not None for each in gone) == 9_050
    kept = Counter(key[0] for key, _ in table.items())
    assert kept == {"r": 50, "m": 950}
    assert [key for key, _ in table.items()][-1] == "m9999"


@given(steps)
@settings(max_examples=200)
def test_it_does_as_a_plain_list_would(todo: list[tuple[str, int, str]]) -> None:
    table: FairTable[str, int, str] = FairTable(MOST)
    plain: list[tuple[str, int]] = []
    for owner, key, what in todo:
        plain = [each for each in plain if each[1] != key]
        if what == "pop":
            table.pop(key)
        else:
            plain.append((owner, key))
            gone = table.put(owner, key, owner)
            if len(plain) > MOST:
                counts = Counter(each[0] for each in plain)
                assert gone is not None
                assert counts[gone] == max(counts.values())
                plain.remove(next(each for each in plain if each[0] == gone))
            else:
                assert gone is None
        assert [(value, key) for key, value in table.items()] == plain
        assert list(table.values()) == [owner for owner, _ in plain]
        assert len(table) == len(plain)
        oldest = table.oldest()
        assert (None if oldest is None else oldest[0]) == (plain[0][1] if plain else None)
        assert all(table.get(key) == owner for owner, key in plain)
