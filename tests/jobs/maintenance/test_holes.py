from __future__ import annotations

import os
import random
import uuid
from pathlib import Path

from lakemq.jobs.tables.holes import (
    ERASED,
    ERASING,
    LOST,
    Hole,
    Holes,
    append_holes,
    ranges_of,
    read_begun,
    read_holes,
    rename_holes,
)

SEED = int(os.environ.get("LAKEMQ_TEST_SEED", str(uuid.uuid4().int % 2**32)))


def test_positions_become_ranges_and_are_counted_as_a_set_would(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    for _ in range(50):
        positions = {rng.randrange(60) for _ in range(rng.randrange(40))}
        holes = Holes(ranges_of(positions))
        assert {at for hole in holes for at in range(hole.first, hole.last + 1)} == positions
        for _ in range(20):
            after, before = rng.randrange(-1, 60), rng.randrange(-1, 62)
            expected = sum(after < position < before for position in positions)
            assert holes.count_between(after, before) == expected, f"LAKEMQ_TEST_SEED={SEED}"
            within = [position for position in sorted(positions) if after <= position < before]
            assert holes.positions(after, before) == within, f"LAKEMQ_TEST_SEED={SEED}"


def test_the_table_takes_each_hole_once_by_broker(tmp_path: Path) -> None:
    assert read_holes(tmp_path, "a") == []
    append_holes(tmp_path, "a", [Hole(3, 5)], ERASED)
    append_holes(tmp_path, "a", [Hole(3, 5), Hole(4, 4)], ERASED)
    append_holes(tmp_path, "a", [Hole(5, 7)], ERASED)
    append_holes(tmp_path, "b", [Hole(3, 5)], ERASED)
    assert sorted(read_holes(tmp_path, "a")) == [Hole(3, 5), Hole(5, 7)]
    assert read_holes(tmp_path, "b") == [Hole(3, 5)]


def test_the_holes_of_a_replaced_log_go_with_its_new_name(tmp_path: Path) -> None:
    rename_holes(tmp_path, "a", "a~1")  # no table yet
    append_holes(tmp_path, "a", [Hole(3, 5)], ERASED)
    append_holes(tmp_path, "b", [Hole(3, 5)], ERASED)
    for _ in range(2):
        rename_holes(tmp_path, "a", "a~1")
    append_holes(tmp_path, "a", [Hole(7, 7)], ERASED)
    found = {broker: read_holes(tmp_path, broker) for broker in ("a", "a~1", "b")}
    assert found == {"a": [Hole(7, 7)], "a~1": [Hole(3, 5)], "b": [Hole(3, 5)]}


def test_an_erasure_that_has_begun_makes_no_hole_until_it_is_done(tmp_path: Path) -> None:
    for _ in range(2):
        append_holes(tmp_path, "a", [Hole(3, 5)], ERASING)
    assert (read_holes(tmp_path, "a"), read_begun(tmp_path, "a")) == ([], [Hole(3, 5)])
    append_holes(tmp_path, "a", [Hole(3, 4)], ERASED)
    append_holes(tmp_path, "a", [Hole(3, 3)], LOST)
    assert (read_holes(tmp_path, "a"), read_begun(tmp_path, "a")) == ([Hole(3, 4)], [Hole(3, 5)])
    append_holes(tmp_path, "b", [Hole(7, 7)], ERASING)
    rename_holes(tmp_path, "b", "b~1")
    assert (read_begun(tmp_path, "b"), read_begun(tmp_path, "b~1")) == ([], [Hole(7, 7)])
