"""The quick form of the power cuts: a whole gateway on a file system that forgets what was not synced."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakemq.testing.history import Recorder
from tests.power.machine import Machine, why_not
from tests.power.run import PowerRun

SEED = 7
"""The long form, `python -m tests.power.run`, has another one each time."""
WHY_NOT = why_not()
pytestmark = [
    pytest.mark.skipif(WHY_NOT is not None, reason=f"no power can be cut here: {WHY_NOT}"),
    pytest.mark.timeout(600),
]


def test_what_was_not_synced_is_forgotten_and_what_was_is_kept(tmp_path: Path) -> None:
    with Machine(tmp_path) as machine:
        for seed in range(8):
            machine.start(seed)
            with (machine.data / f"synced-{seed}").open("wb") as file:
                file.write(b"kept")
                file.flush()
                machine.sync(file.fileno())
            machine.sync_folder(machine.data)
            for number in range(8):
                (machine.data / f"new-{seed}-{number}").write_bytes(b"x" * 10_000)
            machine.cut_power()
        machine.start(0)
        assert all((machine.data / f"synced-{seed}").read_bytes() == b"kept" for seed in range(8))
        left = [path.read_bytes() for path in machine.data.glob("new-*")]
        assert len(left) < 64 or any(content != b"x" * 10_000 for content in left)


def test_what_was_synced_outlives_power_cuts(tmp_path: Path) -> None:
    with Recorder() as recorder:
        run = PowerRun(tmp_path, recorder, SEED)
        findings = run.run(2)
    assert [str(finding) for finding in findings[:5]] == []
