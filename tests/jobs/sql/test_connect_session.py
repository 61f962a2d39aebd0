"""A session whose server is gone holds nobody up."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from typing import Any

import pytest

from lakemq.jobs.session.discovery import Server
from lakemq.jobs.sql.connect_session import connect_session, only_session
from lakemq.model.errors import SettingsError

NOBODY_THERE = Server("sc://127.0.0.1:1", 1)
WAITS_MS_MAX = 15_000


def test_a_session_whose_server_is_gone_gives_up_soon_and_sends_nothing_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Regression: PySpark tried for ten minutes, once more when the process ended."""
    at_exit: list[Callable[[], object]] = []
    monkeypatch.setattr(atexit, "register", lambda call, *given: at_exit.append(lambda: call(*given)))
    session = connect_session(NOBODY_THERE, "t")
    client: Any = session.client
    assert [round(_waits_ms(policy)) <= WAITS_MS_MAX for policy in client.get_retry_policies()] == [True]
    for call in reversed(at_exit):
        call()
    assert client.is_closed
    session.stop()


@pytest.mark.parametrize("make", [connect_session, only_session])
def test_a_token_does_not_leave_this_machine_in_the_clear(make: Callable[[Server, str], object]) -> None:
    with pytest.raises(SettingsError, match="in the clear") as refused:
        make(Server("sc://192.0.2.1:7", 1), "s3cret")
    assert "s3cret" not in str(refused.value)


def test_a_session_shows_its_token_to_the_address_that_was_announced_and_to_no_proxy() -> None:
    """PySpark's own way is by `localhost`, which is `::1` too, where somebody else may listen."""
    session = connect_session(Server("sc://[::1]:1", 1), "s3cret")
    client: Any = session.client
    builder = client._builder
    assert builder.endpoint == "[::1]:1"
    assert list(builder.metadata()) == [("authorization", "Bearer s3cret")]
    assert ("grpc.enable_http_proxy", 0) in builder._channel_options
    client.close()
    session.stop()


def _waits_ms(policy: Any) -> float:
    state = policy.to_state()
    waits = 0.0
    while (wait := state.next_attempt()) is not None:
        waits += wait
    return waits
