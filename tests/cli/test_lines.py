"""Lines of a stream, in batches as they arrive."""

from __future__ import annotations

import os
from pathlib import Path

from lakemq.cli.lines import READ_BYTES, batches_of_lines


def lines_of(content: bytes, lines_max: int = 3) -> list[list[bytes]]:
    read, write = os.pipe()
    try:
        os.write(write, content)
        os.close(write)
        return list(batches_of_lines(read, lines_max))
    finally:
        os.close(read)


def test_lines_lose_their_ends_and_blank_ones_are_left_out() -> None:
    assert lines_of(b"a\r\n\n  \nb\n") == [[b"a", b"b"]]


def test_a_last_line_without_an_end_counts() -> None:
    assert lines_of(b"a\nb") == [[b"a"], [b"b"]]


def test_a_batch_holds_no_more_than_asked_for() -> None:
    assert [len(batch) for batch in lines_of(b"x\n" * 7)] == [3, 3, 1]


def test_what_was_written_is_not_held_back_for_more() -> None:
    read, write = os.pipe()
    batches = batches_of_lines(read, 10)
    os.write(write, b"first\nsec")
    assert next(batches) == [b"first"]
    os.write(write, b"ond\n")
    assert next(batches) == [b"second"]
    os.close(write)
    assert list(batches) == []
    os.close(read)


def test_a_line_longer_than_a_read_stays_whole(tmp_path: Path) -> None:
    file = tmp_path / "long"
    file.write_bytes(b"y" * (READ_BYTES + 10) + b"\nz\n")
    descriptor = os.open(file, os.O_RDONLY)
    batches = list(batches_of_lines(descriptor, 10))
    os.close(descriptor)
    assert batches == [[b"y" * (READ_BYTES + 10), b"z"]]
