"""Bugs in a real gateway: the checker finds each of them in what its clients saw."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from lakemq.testing.history import Finding, Kind, Recorder
from tests.chaos.run import Run
from tests.power.machine import why_not
from tests.power.run import PowerRun

MODULE = "tests.chaos.planted"
SEED = 11


def kinds_of(findings: Iterable[Finding | str]) -> set[Kind]:
    return {finding.kind for finding in findings if isinstance(finding, Finding)}


@pytest.mark.parametrize(
    ("bugs", "workers", "faults", "kinds"),
    [
        ("early,double", ("delayer", "transactor"), ("freeze",), {Kind.EARLY, Kind.STORED_TWICE}),
        (
            "frame,reuse,offset",
            ("producer-1", "consumer-0"),
            ("kill", "kill"),
            {Kind.LOST, Kind.TWO_VALUES, Kind.OFFSET_WENT_BACK},
        ),
    ],
)
def test_a_bug_that_is_planted_in_a_gateway_is_found(
    bugs: str,
    workers: tuple[str, ...],
    faults: tuple[str, ...],
    kinds: set[Kind],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PLANTED_BUGS", bugs)
    with Recorder() as recorder:
        run = Run(tmp_path / "data", recorder, SEED, faults, workers, MODULE)
        found = run.run(0, faults_min=len(faults), settle_s=0).findings
    assert kinds <= kinds_of(found), "\n".join(map(str, found[:10]))


@pytest.mark.skipif(why_not() is not None, reason=f"no power can be cut here: {why_not()}")
def test_a_sync_that_is_left_out_is_found_by_a_power_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED_BUGS", "sync")
    with Recorder() as recorder:
        found = PowerRun(tmp_path, recorder, SEED, module=MODULE).run(2)
    refused = [finding for finding in found if isinstance(finding, str)]
    assert refused or Kind.LOST in kinds_of(found)
