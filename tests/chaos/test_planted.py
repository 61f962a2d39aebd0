"""Bugs in a real gateway: the checker finds each of them in what its clients saw."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from lakemq.testing.history import Finding, Kind, Recorder
from tests.chaos import workers
from tests.chaos.run import Run
from tests.power import run as power
from tests.power.machine import FUSE, why_not
from tests.power.run import PowerRun
from tests.reliability.fork_server import GATEWAY, ForkServer

MODULE = "tests.chaos.planted"
SEED = 11
SEEDS_MAX = 20
"""Mostly one is enough; a machine that is slow does little in a run, and less of it before a fault."""

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def forks() -> Iterator[ForkServer]:
    on_fuse = () if why_not() else ("tests.power.file_system",)
    with ForkServer(MODULE, *GATEWAY, *on_fuse, **FUSE) as forks:
        yield forks


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
    forks: ForkServer,
) -> None:
    monkeypatch.setenv("PLANTED_BUGS", bugs)
    found: set[Kind] = set()
    others: list[str] = []
    for seed in range(SEED, SEED + SEEDS_MAX):  # what a client has done by the time of a fault is by chance
        with Recorder() as recorder:
            run = Run(tmp_path / str(seed), recorder, seed, faults, workers, MODULE, forks)
            findings = run.run(0, faults_min=len(faults), settle_s=0).findings
        found |= kinds_of(findings)
        others += [each for each in findings if isinstance(each, str)]
        if kinds <= found:
            return
    pytest.fail(f"not found: {kinds - found}, but {others[:3]}")


with_power = pytest.mark.skipif(why_not() is not None, reason=f"no power can be cut here: {why_not()}")


def power_runs(folder: Path, forks: ForkServer) -> Iterator[set[Kind | str]]:
    """What one run after the other has found so far: what a cut leaves, and where it comes, is by chance."""
    found: set[Kind | str] = set()
    for seed in range(SEED, SEED + SEEDS_MAX):
        with Recorder() as recorder:
            (folder / str(seed)).mkdir()
            findings = PowerRun(folder / str(seed), recorder, seed, forks, MODULE).run(3)
        found |= {each.kind if isinstance(each, Finding) else each for each in findings}
        yield found


@with_power
def test_a_sync_that_is_left_out_is_found_by_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forks: ForkServer
) -> None:
    monkeypatch.setenv("PLANTED_BUGS", "sync")
    # A start may also be refused.
    assert any(Kind.LOST in found or not found <= set(Kind) for found in power_runs(tmp_path, forks))


@with_power
@pytest.mark.parametrize(
    ("bugs", "kinds"),
    [
        ("delays,commits,receipts", {Kind.DELAY_LOST, Kind.LOST, Kind.WRONG_RECEIPT}),
        ("halves,reuse", {Kind.SEEN_BEFORE_COMMIT, Kind.TWO_VALUES, Kind.TWO_MEANINGS}),
    ],
)
def test_a_bug_that_shows_over_power_cuts_is_found(
    bugs: str, kinds: set[Kind], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forks: ForkServer
) -> None:
    monkeypatch.setenv("PLANTED_BUGS", bugs)
    monkeypatch.setattr(workers, "LEFT", 0.5)
    monkeypatch.setattr(workers, "INVISIBLE_MS", (50,))
    monkeypatch.setattr(power, "FLUSHES", ("async",))
    found: set[Kind | str] = set()
    assert any(kinds <= (found := each) for each in power_runs(tmp_path, forks)), kinds - found


@pytest.mark.parametrize(("bug", "said"), [("refuse", "it does not start again"), ("end", "exit code 7")])
def test_a_gateway_that_does_not_start_again_or_ends_is_one_finding_of_the_run(
    bug: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forks: ForkServer
) -> None:
    monkeypatch.setenv("PLANTED_BUGS", bug)
    with Recorder() as recorder:
        run = Run(tmp_path / "data", recorder, SEED, ("kill",), ("producer-1", "producer-2"), MODULE, forks)
        found = [str(each) for each in run.run(0, faults_min=5).findings if not isinstance(each, Finding)]
    assert len(found) == 1
    assert found[0].startswith(f"seed {SEED}, life ")
    assert said in found[0]
    assert "\n" not in found[0]
