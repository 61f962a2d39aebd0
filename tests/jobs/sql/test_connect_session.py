"""A session whose server is gone holds nobody up."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from typing import Any

import pytest

from lakemq.jobs.sql.connect_session import connect_session

NOBODY_THERE = "sc://127.0.0.1:1"
WAITS_MS_MAX = 15_000


def test_a_session_whose_server_is_gone_gives_up_soon_and_sends_nothing_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Regression: PySpark tried for ten minutes, once more when the process ended."""
    at_exit: list[Callable[[], object]] = []
    monkeypatch.setattr(atexit, "register", lambda call, *given: at_exit.append(lambda: call(*given)))
    session = connect_session(NOBODY_THERE)
    client: Any = session.client
    assert [round(_waits_ms(policy)) <= WAITS_MS_MAX for policy in client.get_retry_policies()] == [True]
    for call in reversed(at_exit):
        call()
    assert client.is_closed
    session.stop()


def _waits_ms(policy: Any) -> float:
    state = policy.to_state()
    waits = 0.0
    while (wait := state.next_attempt()) is not None:
        waits += wait
    return waits
