"""What tells that a file was changed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lakemq.wire.file_facts import facts_of


def write_as_long(file: Path) -> None:
    file.write_text("other")
    os.utime(file, ns=(5, 6))


def put_another(file: Path) -> None:
    new = file.with_name("new")
    new.write_text("first")
    os.utime(new, ns=(1, 2))
    new.replace(file)


@pytest.mark.parametrize("change", [write_as_long, put_another, lambda file: file.chmod(0o640), Path.unlink])
def test_a_file_that_was_changed_has_other_facts(tmp_path: Path, change: Callable[[Path], None]) -> None:
    file = tmp_path / "file"
    file.write_text("first")
    os.utime(file, ns=(1, 2))
    before = facts_of(file)
    assert facts_of(str(file)) == before is not None
    change(file)
    assert facts_of(file) != before


def test_what_is_not_there_has_none(tmp_path: Path) -> None:
    assert facts_of(tmp_path / "nothing") is facts_of(tmp_path / "nothing" / "more") is facts_of("") is None
