"""The three files that a command has from its shell, and what a terminal's end does."""

from __future__ import annotations

import os
import signal
import sys


def fill_in() -> None:
    """Put the null device where the shell has left nothing (`>&-`). Else the next file that is opened, maybe the
    log's, has that number, and gets what is written to the terminal."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it has the lowest number that is free: this one
            os.set_inheritable(number, True)
        if number and getattr(sys, name) is None:
            setattr(sys, name, open(number, "w", closefd=False))  # noqa: SIM115  it has no path, and stays


def stop_signals() -> tuple[signal.Signals, ...]:
    """The signals that ask a command to stop: that of a terminal which closes too, unless `nohup` was told before."""
    hangs_up = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
    return (signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hangs_up else []))
