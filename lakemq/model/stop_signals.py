"""Which signals ask a process to stop."""

from __future__ import annotations

import signal


def stop_signals() -> tuple[signal.Signals, ...]:
    """SIGINT, SIGTERM and that of a terminal which closes, unless `nohup` was told that this one is to be ignored."""
    hangs_up = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
    return (signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hangs_up else []))
