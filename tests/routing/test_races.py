"""What a client asks and what the query decides about the same transaction, in one turn of the loop."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from lakemq.gateway.routing.decisions import Posted
from lakemq.model.errors import LakemqError, TransactionResolved
from lakemq.model.message import Draft
from tests.routing.harness import TOPIC, RoutingHarness


@pytest.mark.parametrize("lead_ms", [0, 10_000])
@pytest.mark.parametrize("action", ["check", "give_up", "rollback"])
@pytest.mark.parametrize("client_first", [True, False])
def test_a_commit_that_was_answered_counts(tmp_path: Path, lead_ms: int, action: str, client_first: bool) -> None:
    """Regression: without a lead a check that met the commit forgot it, and a give-up outdid it."""
    harness = RoutingHarness(tmp_path)
    harness.open(lead_ms)
    harness.produce(Draft(b"first"), "pg")  # the topics are there
    half = harness.produce(Draft(b"x"), "pg")
    router = harness.broker.router
    asked = [
        router.transactions.resolve(harness.id_of(half), "pg", "commit"),
        router.decisions.take([Posted(half, action, None)]),
    ]

    async def both() -> list[Any]:
        order = asked if client_first else asked[::-1]
        answers = await asyncio.gather(*order, return_exceptions=True)
        return list(answers) if client_first else list(answers)[::-1]

    committed, _ = harness.run(both())
    harness.pass_time(100_000)
    harness.post(harness.decisions())
    copies = [m for m in harness.messages() if m.topic == TOPIC]
    if committed is None:
        assert [m.get("transaction_id") for m in copies] == [harness.id_of(half)]
        with pytest.raises(TransactionResolved):
            harness.run(router.transactions.resolve(harness.id_of(half), "pg", "rollback"))
    else:
        assert isinstance(committed, LakemqError)
        assert not copies
    harness.stop()
