"""What clients ask and what the query decides about the same cause, in one turn of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from lakemq.gateway.routing.decisions import Posted
from lakemq.gateway.routing.nacks import Nack
from lakemq.model.errors import LakemqError, TransactionResolved
from lakemq.model.message import Draft
from tests.gateway.routing.harness import TOPIC, RoutingHarness, anybody


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
        router.transactions.resolve(harness.secret_of(half), "pg", "commit"),
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
        assert [m.get("transaction_id") for m in copies] == [harness.secret_of(half)]
        with pytest.raises(TransactionResolved):
            harness.run(router.transactions.resolve(harness.secret_of(half), "pg", "rollback"))
    else:
        assert isinstance(committed, LakemqError)
        assert not copies
    harness.stop()


ACK, NACK, NACK_BY_ID, RUN_OUT, CHANGE = "ack", "nack", "nack by id", "run out", "change"


@pytest.mark.parametrize("lead_ms", [0, 10_000])
@pytest.mark.parametrize("pair", list(permutations([ACK, NACK, NACK_BY_ID, RUN_OUT, CHANGE], 2)), ids=" ".join)
def test_a_message_that_is_out_has_one_outcome(tmp_path: Path, lead_ms: int, pair: tuple[str, str]) -> None:
    """Regression: after a nack the receipt ran out too, and two copies came back."""
    harness = RoutingHarness(tmp_path)
    harness.open(lead_ms)
    harness.produce(Draft(b"x"))
    router = harness.broker.router
    (held,) = harness.run(harness.receiving("g", 1, 1_000, 16, False))
    receipt = harness.secret_of(held.receipt)
    asked: dict[str, Callable[[], Awaitable[Any]]] = {
        ACK: lambda: router.acknowledger.acknowledge("g", [receipt]),
        NACK: lambda: router.nacks.nack("g", [Nack(None, 1, receipt=receipt)], anybody),
        NACK_BY_ID: lambda: router.nacks.nack("g", [Nack(harness.id_of(held.position), 1)], anybody),
        RUN_OUT: lambda: router.decisions.take([Posted(held.receipt, "retry", None)]),
        CHANGE: lambda: router.acknowledger.change("g", receipt, 3_600_000),
    }
    harness.clock.time_ms += 1_000

    async def both() -> list[Any]:
        return list(await asyncio.gather(*(asked[each]() for each in pair), return_exceptions=True))

    answers = dict(zip(pair, harness.run(both()), strict=True))
    effects = [m for m in harness.messages() if m.get("cause") == held.receipt]
    assert len(effects) == 1
    took_it = {each for each, answer in answers.items() if answer in (["ok"], 1) or isinstance(answer, tuple)}
    # By its id a message is nacked whatever its receipt is now.
    assert len(took_it) == 1 or took_it == {CHANGE, NACK_BY_ID}
    for _ in range(3):
        harness.pass_time(4_000_000)
        harness.post(harness.decisions())
    copies = [m for m in harness.messages() if m.topic == "%RETRY%g"]
    assert len(copies) == (0 if answers.get(ACK) == ["ok"] else 1)
    again = harness.run(router.acknowledger.acknowledge("g", [receipt]))
    assert again == (["ok"] if answers.get(ACK) == ["ok"] else ["receipt_expired"])
    nacked = harness.run(router.nacks.nack("g", [Nack(harness.id_of(held.position))], anybody))
    assert nacked == ["duplicate"]
    harness.restart_without_snapshots(lead_ms)
    assert harness.run(harness.broker.router.nacks.nack("g", [Nack(None, receipt=receipt)], anybody)) != ["ok"]
    harness.stop()
