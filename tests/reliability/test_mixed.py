"""The quick form of `python -m tests.reliability.mixed`, where both versions are this one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reliability.mixed import STEPS, STEPS_OF_THREE, parse, run
from tests.reliability.results import ROOT


def test_what_is_begun_at_one_leader_is_ended_at_another(tmp_path: Path) -> None:
    steps = ("upgrade 1", "switch 1", "kill 1", "start 1", "downgrade 0")
    findings, counts = run(tmp_path, ROOT, steps)
    assert findings == []
    assert counts["steps"] == len(steps)
    assert counts["messages"] > 60 * len(steps)


@pytest.mark.long
def test_of_three_two_go_on_as_one_dies(tmp_path: Path) -> None:
    steps = ("upgrade 2", "switch 2", "kill 2", "start 2")
    findings, counts = run(tmp_path, ROOT, steps, replicas=3, replication__min_in_sync=2)
    assert findings == []
    assert counts["steps"] == len(steps)


def test_who_waits_for_all_would_wait_for_the_dead(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--old", "HEAD", "--min-in-sync", "2"])
    assert "each death would be waited for" in capsys.readouterr().err
    assert parse(["--old", "HEAD", "--replicas", "3", "--min-in-sync", "2"]).steps == list(STEPS_OF_THREE)


@pytest.mark.parametrize("step", ["upgrade", "upgrade 2", "rest 1", ""])
def test_a_step_that_there_is_not_is_refused(step: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--old", "HEAD", "--steps", f"{STEPS[0]}, {step}"])
    assert "is no step" in capsys.readouterr().err
