"""Many resolutions in one request: while they are looked at, others go on."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakemq.gateway.routes.transaction_routes import BATCH_MAX
from tests.gateway.routing.harness import RoutingHarness
from tests.gateway.turns import turns_of


def test_the_errors_of_many_resolutions_keep_no_frames(harness: RoutingHarness) -> None:
    """The collector took 0.2 s for them, at any moment."""
    transactions, refused = harness.broker.router.transactions, "transaction_not_found"

    async def in_a_cycle() -> int:
        gc.collect()
        found = await transactions.resolve_many([(f"none.{number}", "commit") for number in range(100)], "pg")
        assert {each.status for each in found} == {refused}
        del found
        return gc.collect()

    assert harness.run(in_a_cycle()) < 100


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[RoutingHarness]:
    harness = RoutingHarness(tmp_path)
    harness.open(lead_ms=1_000)
    yield harness
    harness.close()


def test_others_go_on_while_the_ids_of_many_resolutions_are_looked_at(harness: RoutingHarness) -> None:
    """10,000 that are none held up everybody for 0.2 s."""
    pairs = [(f"none.{number}", "commit") for number in range(BATCH_MAX)]
    found, turns = harness.run(turns_of(harness.broker.router.transactions.resolve_many(pairs, "pg")))
    assert {each.status for each in found} == {"transaction_not_found"}
    assert turns > 0
