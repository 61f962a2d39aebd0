"""Syncs without which a power cut in just the wrong moment breaks a promise."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakemq.model.errors import LakemqError
from tests.storage.needed_syncs import SCENES, run_scene


@pytest.mark.parametrize("site", SCENES)
def test_without_the_sync_a_power_cut_breaks_a_promise_and_with_it_none(site: str, tmp_path: Path) -> None:
    run_scene(SCENES[site], tmp_path / "with")
    with pytest.raises((AssertionError, LakemqError)):
        run_scene(SCENES[site], tmp_path / "without", site)
