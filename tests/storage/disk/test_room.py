"""How full a disk is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakemq.storage.disk.files import Files


def test_what_a_file_system_keeps_for_root_is_neither_free_nor_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So `df` and RocketMQ count it. A disk of which root keeps much was called full far too early."""
    blocks, free, free_for_all = 1_000, 300, 100
    found = os.statvfs_result((4096, 512, blocks, free, free_for_all, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda path: found)
    assert Files().free_bytes(tmp_path) == (512 * 100, 512 * 800)


def test_of_a_real_disk_no_more_is_free_than_there_is(tmp_path: Path) -> None:
    free, total = Files().free_bytes(tmp_path)
    assert 0 < free <= total
