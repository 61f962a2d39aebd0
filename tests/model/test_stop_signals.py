from __future__ import annotations

import signal

import pytest

from lakemq.model.stop_signals import stop_signals


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_a_terminal_that_closes_stops_a_command_unless_nohup_was_told(handler: signal.Handlers) -> None:
    """Regression: `nohup lakemq up` ended with its terminal."""
    before = signal.signal(signal.SIGHUP, handler)
    try:
        assert (signal.SIGHUP in stop_signals()) == (handler is signal.SIG_DFL)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert {signal.SIGINT, signal.SIGTERM} <= set(stop_signals())
