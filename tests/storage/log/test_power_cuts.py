"""Power cuts and kills in any mutating call of a broker, with files that lose what was not synced; and the
proof that each sync is needed: without it a promise is broken."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

import lakemq
from tests.gateway.fleet.test_records import SYNCS as RECORD_SYNCS
from tests.gateway.fleet.test_stores_of_leaders import SYNCS as FOLDER_SYNCS
from tests.gateway.sinks.test_taken_parts import SYNCS as PART_SYNCS
from tests.open_files import open_files
from tests.storage.ledger import Broken
from tests.storage.log.test_dropping import SYNC_OF_REMOVAL
from tests.storage.log.test_dropping import SYNCS as DROPPING_SYNCS
from tests.storage.mend.test_log_cuts import SYNCS as LOG_CUT_SYNCS
from tests.storage.mend.test_repair_cuts import SYNCS as REPAIR_SYNCS
from tests.storage.needed_syncs import SCENES
from tests.storage.power_cuts import count_calls, run_fault, run_rounds, run_seed

pytestmark = pytest.mark.timeout(900)  # many starts: minutes on a machine that does much else
CALLS = 217
"""The calls that the seeds below were found with."""
FIRST, ROUNDS, FAULTS = 5_000, 20, 12
"""The long form is `python -m tests.storage.power_cuts`."""

CAUGHT = {
    "storage.log.commit_log.CommitLog._prepare_flush.<locals>.flush: sync": (1, 3),
    "storage.log.commit_log.CommitLog.open: sync_above.sync_dir": (141, 10),
    "storage.mend.erasure._Writer.finish: sync": (2, 4),
    "storage.mend.replacing.Replacing._sync_names: sync_dir": (4, 6),
    "storage.log.segment_store.SegmentStore._make_with: sync": (17, 53),
    "storage.log.segment_store.SegmentStore._make_with: sync_dir": (15, 31),
    "storage.log.unflushed.bring_to_disk: sync": (28, 29),
    "storage.log.lost_tail.pass_over_lost_tail: sync": (18, 28),
    "gateway.sinks.staging.Staging.write: replace.sync": (2,),
    "gateway.sinks.staging.Staging.write: replace.sync_dir": (108, 168),
}
"""Each sync, and seeds of which at least one breaks a promise when it does nothing."""
SELDOM = [site for site in CAUGHT if site.startswith("gateway.sinks.staging.")]
"""Of these a hundred seeds more may be needed. tests/gateway/sinks/test_taken_parts.py shows each to be needed in no
time."""
_FIRST_OF_A_FOLLOWER = (
    "nobody was promised that a follower has anything; but it would begin without its first segment, and"
    " refuse to: tests/gateway/fleet/test_following.py shows that"
)
_OF_WHO_CONFIRMS = (
    "a new leader that doesn't know it passes over far more than was told: no promise needs it, but consumers are told"
    " of a gap"
)
NOT_CAUGHT = {
    "storage.log.positions.write_reserved: replace.sync": "a bound that is lost is passed over by far more than was"
    " given: no promise needs it, but 4,294,967,295 positions are as good as gone after each power cut",
    "storage.log.positions.note_confirming: replace.sync": _OF_WHO_CONFIRMS,
    "storage.log.positions.note_confirming: replace.sync_dir": _OF_WHO_CONFIRMS,
    "storage.log.positions.forget_given: sync_dir": "what is back after a power cut has the next start pass over far"
    " more than was told: no promise needs it, but consumers are told of a gap",
    "storage.log.segment_store.SegmentStore._remove_left: sync_dir": "a segment that could not be begun and is back"
    " after a power cut is removed by the next start: tests/storage/log/test_taken_back.py. Only a lakemq of before"
    " would refuse it",
    "storage.mend.truncate._write: replace.sync_dir": "the name of what is kept is brought to disk once more with that"
    " of CUTTING, before anything is cut",
    "gateway.fleet.primary.begin_log: replace.sync": _FIRST_OF_A_FOLLOWER,
    "gateway.fleet.primary.begin_log: replace.sync_dir": _FIRST_OF_A_FOLLOWER,
    "gateway.fleet.primary.begin_log: sync_above.sync_dir": "a follower whose folder is lost begins anew, and"
    " nobody was promised that it has anything; but then it isn't there as the one copy that is left",
}
"""Those that no run shows to be needed, and why they stay."""
SYNCS_OF = {
    "sync": ["sync"],
    "sync_dir": ["sync_dir"],
    "sync_above": ["sync_above.sync_dir"],
    "replace": ["replace.sync", "replace.sync_dir"],
}
"""Of each method of `Files`."""
ELSEWHERE = ("storage.backup.", "storage.lake.", "storage.mend.stand_in")


def test_power_cuts_and_kills_at_any_call_break_no_promise(tmp_path: Path) -> None:
    calls = count_calls(tmp_path)
    for seed in range(FIRST, FIRST + ROUNDS):
        run_seed(seed, calls)


@pytest.mark.parametrize(
    "site", [pytest.param(site, marks=[pytest.mark.long] if site in SELDOM else []) for site in CAUGHT]
)
def test_without_any_one_sync_a_promise_is_broken(site: str) -> None:
    for seed in (*CAUGHT[site], *range(100, 1_000)):
        try:
            run_seed(seed, CALLS, site)
        except Broken:
            return
    pytest.fail("nobody noticed")


def test_sink_s_messages_that_a_start_wrote_may_move_until_they_are_on_disk() -> None:
    assert run_rounds("power_cuts", range(100_485, 100_486), calls=219, repeat=5) == 0


def test_process_that_died_has_no_file_open() -> None:
    before = open_files("lakemq-power")
    for seed in (1_000, 1_003, 1_012):
        run_seed(seed, CALLS)
    assert open_files("lakemq-power") == before


@pytest.mark.parametrize("seed", [302_613, 306_273])
def test_new_index_is_never_beside_the_file_that_an_erasure_replaced(seed: int) -> None:
    assert run_rounds("power_cuts", range(seed, seed + 1), calls=219) == 0


def test_long_form_leaves_out_what_its_results_have_and_nothing_else(tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    for seeds in (range(900, 902), range(10, 11), range(900, 902), range(11, 13)):
        assert run_rounds("power_cuts", seeds, results, CALLS) == 0
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    assert [(line["seed"], line["rounds"]) for line in lines] == [(900, 2), (10, 1), (11, 2)]
    results.write_text(results.read_text().replace('"broken": []', '"broken": ["it"]'))
    assert run_rounds("power_cuts", range(900, 902), results, CALLS) == 1


def test_power_cut_after_a_disk_that_failed_once_breaks_no_promise(tmp_path: Path) -> None:
    calls = count_calls(tmp_path)
    for seed in range(FAULTS):
        run_fault(seed, calls)


def test_every_sync_of_storage_and_gateway_is_shown_to_be_needed_or_listed() -> None:
    package = Path(lakemq.__file__).parent
    found: set[str] = set()
    for path in [*package.glob("storage/**/*.py"), *package.glob("gateway/**/*.py")]:
        module = ".".join(path.relative_to(package).with_suffix("").parts)
        if path.name != "files.py" and not module.startswith(ELSEWHERE):
            found |= {f"{module}.{name}" for name in _syncs_of(ast.parse(path.read_text()), "")}
    elsewhere = (
        *SCENES, *REPAIR_SYNCS, *LOG_CUT_SYNCS, *DROPPING_SYNCS,
        *RECORD_SYNCS, *FOLDER_SYNCS, *PART_SYNCS, SYNC_OF_REMOVAL,
    )  # fmt: skip
    shown = {_short(site) for site in (*CAUGHT, *elsewhere, *NOT_CAUGHT)}
    assert sorted(found - shown) == []
    assert sorted(shown - found) == []


def _syncs_of(node: ast.AST, function: str) -> set[str]:
    """Where the tree syncs: the innermost function, and how."""
    found: set[str] = set()
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        function = node.name
    match node:
        case ast.Call(func=ast.Attribute(attr=name, value=owner)) if ast.unparse(owner).endswith("files"):
            is_durable = "durable=False" not in ast.unparse(node)
            found.update(f"{function}: {how}" for how in SYNCS_OF.get(name, ()) if is_durable)
        case _:
            pass
    return found.union(*(_syncs_of(child, function) for child in ast.iter_child_nodes(node)))


def _short(site: str) -> str:
    """`module.function: how` of a site with classes and outer functions in its name."""
    where, how = site.split(": ")
    parts = [part for part in where.split(".") if part != "<locals>"]
    function = parts.pop()
    while parts[-1].strip("_")[0].isupper() or parts[-1] == "_prepare_flush":
        parts.pop()
    return f"{'.'.join(parts)}.{function}: {how}"
